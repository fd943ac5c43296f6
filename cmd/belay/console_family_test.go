package main

import (
	"fmt"
	"path/filepath"
	"testing"
)

// family starts a goal that has a child, which asks: both are in the list, the
// goal shows the child and leads to its question, and what becomes of the child
// is seen there as it happens.
func (s *served) family(t *testing.T, b *browser) {
	goal := s.begin("Have it painted", painters+delegation("write a.txt")+
		"  - {expect: {contains: [\"wrote my file\"]}, calls: [{tool: apply_child, args: {child: op1}}]}\n"+stepDone)
	page := b.open(t, s.url())
	page.until(`[...document.querySelectorAll(".goal-row.child")].some((r) => r.innerText.includes("└ write a.txt") && r.innerText.includes(` + quote("child of "+goal[:8]) + `))`)
	page.until(fmt.Sprintf(`(() => { const rows = [...document.querySelectorAll(".goal-row")], at = rows.findIndex((r) => r.href.endsWith(%s)); return rows[at + 1]?.matches(".child"); })()`, quote(goal)))
	page.press("Have it painted")
	page.shows("A child goal asks: write a.txt")
	page.until(`document.querySelector(".family .chip")?.innerText.includes("waits for your approval")`)
	page.until(`document.querySelector(".family .dim").innerText.startsWith("op1 · ")`)
	axe(page, "a goal with a child")
	if *pictures != "" {
		page.picture(filepath.Join(*pictures, "children.png"))
	}
	other := b.open(t, s.url())
	other.press("Have it painted")
	other.shows("A child goal asks: write a.txt")

	page.press("Answer it there")
	page.shows("Approve write_file?")
	page.until(fmt.Sprintf(`document.querySelector(".goal-head a")?.href.endsWith(%s)`, quote(goal)))
	page.press("Approve")
	page.state("completed")
	other.shows("Approve apply_child?")
	other.until(`document.querySelector(".family .chip")?.innerText.includes("completed") && !document.querySelector(".asks").innerText.includes("A child goal asks")`)
	other.shows("1 file changed, not applied")
	other.press("Approve")
	other.shows("1 file changed, applied")
	page.press(goal) // back to the parent
	page.shows("1 file changed, applied")
	page.sound()
	other.sound()
	s.must(0, "cancel", goal)
}
