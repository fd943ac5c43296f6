import React from "react";
type Props = { title: string };
export function Page({ title }: Props) {
  const [open, setOpen] = React.useState(false);
  return <Panel open={open} onClick={() => setOpen(!open)}>{title}</Panel>;
}
export const Panel: React.FC = (props) => <div {...props} />;
