export interface Store<T> {
  readonly size: number;
  get(id: string): T | undefined;
}
export type Id = string | number;
export enum Color { Red, Green = "green" }
export abstract class Base<T> implements Store<T> {
  private items: Map<Id, T> = new Map();
  abstract get(id: string): T | undefined;
  handler = async (e: Event): Promise<void> => {};
  get size(): number { return this.items.size; }
}
declare function legacy(x: number): void;
namespace Geometry { export const PI = 3.14; export function area(r: number) { return PI * r * r; } }
export const make = <T,>(x: T): Store<T> => { throw x; };
