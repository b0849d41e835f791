"""What a page must be for those who do not use it as its author does: rules of WCAG 2.2 that a program can judge, asked of the page itself.

Each check returns a list of complaints, empty where all is well.
"""

# Text against what is behind it: 4.5, or 3 where it is large (1.4.3).
CONTRAST = r"""(() => {
  for (const fade of document.getAnimations()) if (fade.effect.getComputedTiming().endTime !== Infinity) fade.finish();
  const rgba = t => { const m = /rgba?\(([^)]+)\)/.exec(t); if (!m) return [0, 0, 0, 0]; const p = m[1].split(/[ ,\/]+/).map(Number); return [p[0], p[1], p[2], p.length > 3 ? p[3] : 1]; };
  const over = (a, b) => { const k = a[3] + b[3] * (1 - a[3]); return k === 0 ? [0, 0, 0, 0] : [0, 1, 2].map(i => (a[i] * a[3] + b[i] * b[3] * (1 - a[3])) / k).concat(k); };
  const lum = c => { const f = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }; return 0.2126 * f(c[0]) + 0.7152 * f(c[1]) + 0.0722 * f(c[2]); };
  const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)]; return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
  const seen = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walker.nextNode());) {
    const e = n.parentElement;
    if (!n.data.trim() || !e || ["SCRIPT", "STYLE", "OPTION", "NOSCRIPT"].includes(e.tagName) || e.closest(".hidden, .skip")) continue;
    const s = getComputedStyle(e);
    if (s.visibility !== "visible" || !e.getClientRects().length) continue;
    let back = [0, 0, 0, 0];
    for (let p = e; p && back[3] < 1; p = p.parentElement) back = over(back, rgba(getComputedStyle(p).backgroundColor));
    back = over(back, rgba(getComputedStyle(document.documentElement).colorScheme.includes("dark") ? "rgb(0,0,0)" : "rgb(255,255,255)"));
    const size = parseFloat(s.fontSize), large = size >= 24 || (size >= 18.66 && Number(s.fontWeight) >= 700);
    const r = ratio(over(rgba(s.color), back), back);
    if (r < (large ? 3 : 4.5)) seen.set(e.tagName + "." + e.className + " " + s.color + " on " + back.slice(0, 3).map(Math.round), r.toFixed(2) + " " + n.data.trim().slice(0, 30));
  }
  return [...seen].map(x => x.join(": ")).slice(0, 10);
})()"""

# Names, ids, labels, headings, tables (1.3.1, 2.4.6, 4.1.2), and nothing focusable that is hidden from a screen reader.
STRUCTURE = r"""(() => {
  const out = [], what = e => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.className && typeof e.className === "string" ? "." + e.className : "");
  const ids = new Set();
  for (const e of document.querySelectorAll("[id]")) { if (ids.has(e.id)) out.push("two have the id " + e.id); ids.add(e.id); }
  for (const a of ["aria-labelledby", "aria-describedby", "aria-controls"]) for (const e of document.querySelectorAll("[" + a + "]"))
    for (const id of e.getAttribute(a).split(/\s+/)) if (!document.getElementById(id)) out.push(what(e) + " names " + id + ", which is not there");
  if (!document.documentElement.lang) out.push("no language");
  if (!document.title) out.push("no title");
  if (document.querySelectorAll("main").length !== 1) out.push("not one main");
  if (document.querySelectorAll("h1").length !== 1) out.push("not one h1");
  let last = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) { const n = Number(h.tagName[1]); if (n > last + 1) out.push("heading " + what(h) + " after level " + last); last = n; if (!h.textContent.trim()) out.push("empty heading " + what(h)); }
  for (const e of document.querySelectorAll("input, select, textarea")) if (!e.labels.length && !e.getAttribute("aria-label")) out.push(what(e) + " has no label");
  for (const e of document.querySelectorAll("button, a[href], [role=button]")) if (!(e.getAttribute("aria-label") || e.textContent).trim()) out.push(what(e) + " has no name");
  for (const e of document.querySelectorAll("svg:not([aria-hidden]), [role=img]")) if (!e.getAttribute("aria-label")) out.push(what(e) + " is a picture without words");
  for (const e of document.querySelectorAll("[role=region], [role=group], section")) if (!e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby")) out.push(what(e) + " has no name");
  for (const e of document.querySelectorAll("table")) { if (!e.querySelector("thead th[scope=col]")) out.push(what(e) + " has no column headings"); }
  for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) out.push(what(e) + " has a tabindex above 0");
  for (const e of document.querySelectorAll("[aria-hidden=true]")) if (e.matches("a, button, input, select, [tabindex='0']") || e.querySelector("a, button, input, select, [tabindex='0']")) out.push(what(e) + " is hidden from a screen reader and can be reached");
  for (const e of document.querySelectorAll(".scroll, .tall, #detail")) if ((e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1) && e.tabIndex !== 0) out.push(what(e) + " scrolls, and not by keyboard");
  for (const e of document.querySelectorAll("[onclick], [onload], [onerror], iframe, object, embed, form, base")) out.push(what(e) + " should not be here");
  for (const e of document.querySelectorAll("[src], link[href]")) if (!(e.getAttribute("src") || e.getAttribute("href")).startsWith("data:")) out.push(what(e) + " loads something");
  return out.slice(0, 10);
})()"""

# Nothing sticks out: no sideways scrolling of the page, at 320 CSS pixels either (1.4.10).
OVERFLOW = r"""(() => {
  const wide = document.documentElement.clientWidth, out = [];
  if (document.documentElement.scrollWidth <= wide) return out;
  for (const e of document.body.querySelectorAll("*")) { const r = e.getBoundingClientRect(); if (r.right > wide + 1 && r.width && !e.closest(".scroll, .hidden, .skip") && getComputedStyle(e).position !== "absolute") out.push(e.tagName + "#" + e.id + "." + e.className + " reaches to " + Math.round(r.right) + " of " + wide); }
  return (out.length ? out : ["the page is " + document.documentElement.scrollWidth + " wide, of " + wide]).slice(0, 5);
})()"""

# For a finger: 24 by 24 CSS pixels (2.5.8). Links within text are let off.
TARGETS = r"""(() => {
  const out = [];
  for (const e of document.querySelectorAll("button, select, input")) { const r = e.getBoundingClientRect(); if (r.width && (r.width < 24 || r.height < 24)) out.push(e.tagName + "." + e.className + " " + Math.round(r.width) + "x" + Math.round(r.height)); }
  return [...new Set(out)].slice(0, 5);
})()"""

# Where the keyboard is, as one word.
FOCUS = r"""(() => { const e = document.activeElement; return !e || e === document.body ? "body" : e.id || e.dataset.host && "host" || e.dataset.go && "go" || e.getAttribute("href") || e.getAttribute("aria-labelledby") || e.tagName; })()"""

# That one can see it (2.4.7): an outline, and not one of its background's colour.
FOCUS_SEEN = r"""(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2; })()"""
