"""console_page.py URL WHAT: looks at the console's page in a headless Chromium. Prints "ok - ..." and "not ok - ..." lines.

WHAT: first (a cluster with all kinds of trouble), large (hundreds of agents), empty, broken (no master), gone (the console died while
the page was open: kill it when a line "kill now" comes, and say so on standard input).
SCREENSHOTS: a directory in which pictures are left, for people.
"""
import json, os, sys, time, urllib.request

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, Broken  # noqa: E402
import page_checks as checks  # noqa: E402

url, what = sys.argv[1], sys.argv[2]
pictures = os.environ.get("SCREENSHOTS")


def result(name, good, why=""):
    print(("ok - " if good else "not ok - ") + name + ("" if good else ": " + str(why).replace("\n", " ")[:600]), flush=True)


def none(name, complaints):
    result(name, not complaints, "; ".join(map(str, complaints)))


def picture(page, name, whole=True):
    if pictures:
        page.screenshot(os.path.join(pictures, name + ".png"), whole)


def snapshot():
    with urllib.request.urlopen(url + "api/snapshot", timeout=20) as answer:
        return json.load(answer)


def ready(page, seconds=60):
    return page.until("typeof data === 'object' && data && data.number > 0 && document.querySelectorAll('#tiles dt').length > 0", seconds)


def looks(page, name, every=True):
    """Both colour schemes, and widths from a wall to a phone."""
    for scheme in ("dark", "light") if every or pictures else ("dark",):
        page.colours(scheme)
        none("%s, %s: all text can be read" % (name, scheme), page.run(checks.CONTRAST))
        picture(page, name + "-" + scheme)
    for width, height, phone in ((1920, 1080, False), (800, 900, False), (390, 844, True), (320, 640, True)) if every else ((320, 640, True),):
        page.size(width, height, phone)
        page.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
        none("%s, %d wide: nothing sticks out" % (name, width), page.run(checks.OVERFLOW))
        if phone and width == 390:
            none("%s, on a phone: a finger can hit everything" % name, page.run(checks.TARGETS))
            picture(page, name + "-phone")
        if width == 1920:
            picture(page, name + "-wide")
    page.size(1280, 900)


def clean(page, name):
    none("%s: no error in the browser's console" % name, page.errors)
    none("%s: it asks nobody but its own server" % name, [r for r in page.requests if not r.startswith(url) and not r.startswith("data:")])
    none("%s: no dialog was opened" % name, page.dialogs)
    none("%s: labels, names, headings, tables" % name, page.run(checks.STRUCTURE))


def spoken(page, name):
    wanted = {"button", "combobox", "searchbox", "textbox", "link", "table", "region", "group", "heading", "figure", "image", "img", "alert"}
    nameless = [role for role, text, _ in page.spoken() if role in wanted and role not in ("table", "figure", "alert") and not text.strip()]
    none("%s: a screen reader is told what everything is" % name, nameless)


def first(page):
    seen = snapshot()
    ready(page)
    # The row of every job, as text, whatever its name is.
    names = [j["name"] for j in seen["batch"]["jobs"]]
    result("hostile names are there to begin with", any("<script>" in n for n in names) and any(ord(c) > 0xffff for n in names for c in n) and any(len(n) > 200 for n in names), names)
    shown = page.run("[...document.querySelectorAll('#jobs tr')].map(r => r.cells[1].textContent)")
    result("every job's name is shown as it is", sorted(shown) == sorted(names), [shown, names])
    result("none of them became markup", page.run("document.querySelectorAll('main script, main img, main b b, main iframe').length === 0 && window.pwned === undefined"))
    for state, word in (("RUNNING", "running"), ("PENDING", "pending"), ("FAILED", "failed")):
        result("a job that is %s is shown" % word, page.run("[...document.querySelectorAll('#jobs .word')].some(x => x.textContent === '%s')" % word), state)
    result("why a job waits is shown", page.run("[...document.querySelectorAll('#jobs tr')].some(r => r.cells[3].textContent.startsWith('pending') && r.cells[5].textContent.length > 5)"))
    result("and why a demand is not met", page.until("document.querySelector('#frameworks').textContent.includes('agents:')", 40), page.run("document.querySelector('#frameworks').textContent"))

    # Hosts.
    result("there is a square for each agent", page.run("document.querySelectorAll('#grid .host').length") == len(seen["agents"]))
    result("by rack", page.run("[...document.querySelectorAll('#grid h3')].map(h => h.textContent.split(':')[0])") == ["rack r1", "rack r2", "rack r10"],
           page.run("[...document.querySelectorAll('#grid h3')].map(h => h.textContent)"))
    result("the one that is lost is marked, and not by colour alone", page.run("(c => c && c.textContent === '!' && c.getAttribute('aria-label').includes('unreachable'))(document.querySelector('#grid .lost'))"))
    result("so is the one that is drained, with why", page.run("[...document.querySelectorAll('#grid .away')].some(c => c.textContent === '\\u2193' && c.getAttribute('aria-label').includes('fan <b>broken</b>'))"))
    result("both are among what needs somebody, the lost one first", page.run("[...document.querySelectorAll('#troubles li')].map(x => x.textContent)[0].includes('unreachable') && document.querySelector('#troubles').textContent.includes('drained')"),
           page.run("document.querySelector('#troubles').textContent"))
    roles = page.run("[...document.querySelectorAll('#roles th')].map(x => x.textContent.trim())")
    result("every role is shown, with a picture of its share that has words", roles == [r["name"] for r in seen["roles"]] and len(roles) >= 4 and
           page.run("[...document.querySelectorAll('#roles svg')].every(s => /in use, .* by weight/.test(s.getAttribute('aria-label')))"), roles)
    weights = {r["name"]: r["weight"] for r in seen["roles"]}
    due = page.run("Object.fromEntries([...document.querySelectorAll('#roles tr')].map(r => [r.cells[0].textContent.trim(), Number(/, (\\d+) % by weight/.exec(r.cells[2].firstChild.getAttribute('aria-label'))[1])]))")
    # By hand: siblings share by weight what their parent has.
    top = sum(w for n, w in weights.items() if "/" not in n)
    want = {n: (w / top if "/" not in n else weights["org"] / top * w / (weights["org/physics"] + weights["org/chem"])) for n, w in weights.items()}
    result("shares by weight are right", all(abs(due[n] - 100 * w) <= 1 for n, w in want.items()), [due, want])

    clean(page, "first")
    spoken(page, "first")

    # The keyboard alone.
    page.run("document.activeElement.blur()")
    order = []
    for _ in range(300):
        page.key("Tab")
        at = page.run(checks.FOCUS)
        if at == "body" or (order and at == order[0]):
            break
        order.append(at)
        if not page.run(checks.FOCUS_SEEN):
            result("one sees where the keyboard is", False, at)
    wanted = ["#main", "pause", "theme", "go", "measure", "group", "which", "find", "host", "detail", "h-roles", "h-demand", "job-which", "job-find", "h-jobs", "filter", "h-events", "metrics", "api/snapshot"]
    short = [x for i, x in enumerate(order) if (i == 0 or order[i - 1] != x) and x != "SUMMARY"]  # of long events
    result("Tab goes through it in the order in which it is read, and the hosts are one stop", short == wanted and order.count("host") == 1, order)
    page.run("document.querySelector('#grid .host[tabindex=\"0\"]').focus()")
    before = page.run("document.activeElement.dataset.host")
    page.key("ArrowRight")
    after = page.run("document.activeElement.dataset.host")
    result("an arrow goes to the next host", after is not None and after != before, [before, after])
    page.key("End")
    last = page.run("document.activeElement === [...document.querySelectorAll('#grid .host')].at(-1)")
    page.key("Home")
    result("Home and End go to the first and the last", last and page.run("document.activeElement === document.querySelector('#grid .host')"))
    name = page.run("document.activeElement.dataset.host")
    inside = next(a for a in seen["agents"] if a["name"] == name)
    result("what a host has inside is shown when it is reached", page.run("document.querySelector('#detail h3').textContent") == name and
           all("NUMA node " + n["node"] in page.run("document.querySelector('#detail').textContent") for n in inside["nodes"]) and inside["nodes"], inside)
    result("its devices too", all(d["id"] in page.run("document.querySelector('#detail').textContent") for d in inside["device_list"]), inside["device_list"])
    page.key("Enter")
    result("Enter keeps it there", page.run("document.activeElement.getAttribute('aria-pressed') === 'true'"))
    number = page.run("data.number")
    page.until("data.number >= %d" % (number + 3))
    result("looks go on, and the keyboard stays where it is", page.run("data.number") >= number + 3 and page.run("document.activeElement.dataset.host") == name, page.run(checks.FOCUS))
    page.key("Enter")
    page.run("document.querySelector('#find').focus()")
    page.type("unreachable")
    result("Find finds", page.until("document.querySelectorAll('#grid .host').length === 1", 10))
    page.run("(f => { f.value = ''; f.dispatchEvent(new Event('input')); })(document.querySelector('#find'))")
    page.run("document.querySelector('#pause').focus()")
    page.key(" ")
    number = page.run("data.number")
    time.sleep(2.5)
    result("Pause pauses", page.run("data.number") == number and page.run("document.querySelector('#pause').getAttribute('aria-pressed')") == "true")
    page.key(" ")
    result("and goes on", page.until("data.number > %d" % number, 20))
    page.colours("dark", "reduce")
    result("nothing moves for those who do not want it", page.run("parseFloat(getComputedStyle(document.querySelector('.host')).transitionDuration) === 0"))
    page.run("document.querySelector('#theme').value = 'light'; document.querySelector('#theme').dispatchEvent(new Event('change'))")
    result("the choice of colours is kept", page.run("localStorage.getItem('bourse-theme')") == "light")
    page.run("document.querySelector('#theme').value = ''; document.querySelector('#theme').dispatchEvent(new Event('change'))")
    looks(page, "first")
    clean(page, "after all that")
    # The policy holds: what a stranger would put in does not run.
    page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned = 1\"><iframe src=\"javascript:parent.pwned=1\"></iframe>'); document.head.append(Object.assign(document.createElement('script'), { textContent: 'window.pwned = 1' }))")
    time.sleep(0.5)
    result("the browser runs nothing that is not of the page", page.run("window.pwned === undefined"))


def large(page):
    ready(page)
    count = len(snapshot()["agents"])
    result("there is a square for each of %d agents" % count, page.until("document.querySelectorAll('#grid .host').length === %d" % count, 60), page.run("document.querySelectorAll('#grid .host').length"))
    took = page.run("(() => { const t = performance.now(); for (let i = 0; i < 5; i++) { data.agents.forEach((a, k) => { a.cpus_free = (k * 7 + i * 13) % (a.cpus + 1); }); draw(); } document.body.offsetHeight; return (performance.now() - t) / 5; })()")
    result("drawing all of it anew takes a small part of the time between two looks (%.0f ms)" % took, took < 1500, took)
    page.run("document.querySelector('#grid .host').focus()")
    first_one = page.run("document.activeElement.dataset.host")
    for _ in range(3):
        page.key("ArrowDown")
    result("arrows go down the racks", page.run("document.activeElement.dataset.host") != first_one)
    page.run("document.querySelector('#which').value = 'trouble'; document.querySelector('#which').dispatchEvent(new Event('change'))")
    ill = sum(1 for a in snapshot()["agents"] if a["unhealthy"] or a["state"] != "up" or a["isolation"] == "degraded")
    result("one can look at those alone that are not as they should be (%d)" % ill, 0 < ill < count and page.until("document.querySelectorAll('#grid .host').length === %d" % ill, 10), page.run("document.querySelectorAll('#grid .host').length"))
    page.run("document.querySelector('#which').value = ''; document.querySelector('#which').dispatchEvent(new Event('change'))")
    page.run("(c => { c.focus(); c.click(); })([...document.querySelectorAll('#grid .host')].find(c => data.agents.find(a => a.name === c.dataset.host).device_list.some(d => d.kind === 'gpu/nvidia')))")
    result("GPUs are shown beside their NUMA nodes", page.run("[...document.querySelectorAll('#detail .inner')].every(x => x.textContent.includes('gpu/nvidia')) && document.querySelectorAll('#detail .inner').length === 2"))
    looks(page, "large")
    clean(page, "large")


def empty(page):
    ready(page)
    result("an empty cluster says what to do", page.until("document.querySelector('#grid').textContent.includes('No agent has registered yet')", 20), page.run("document.querySelector('#grid').textContent"))
    looks(page, "empty", False)
    clean(page, "empty")


def broken(page):
    page.until("!document.querySelector('#alarm').hidden", 60)
    alarm = page.run("document.querySelector('#alarm').textContent")
    result("without a master it says so, and why, and that this is the past", "no master" in alarm and "from before" in alarm and page.run("document.querySelector('#alarm').getAttribute('role')") == "alert", alarm)
    result("in the title of its tab too", page.run("document.title").startswith("! "), page.run("document.title"))
    result("what was known is still there", page.run("document.querySelectorAll('#grid .host').length") > 0)
    looks(page, "broken", False)
    clean(page, "broken")


def gone(page):
    ready(page)
    print("kill now", flush=True)
    sys.stdin.readline()
    result("when the console dies, its page says so", page.until("document.querySelector('#state').textContent === 'the console does not answer' && !document.querySelector('#alarm').hidden", 60), page.run("document.querySelector('#state').textContent"))
    result("and keeps what it knew", page.run("document.querySelectorAll('#grid .host').length") > 0)


try:
    with Browser() as browser:
        page = browser.page()
        page.go(url)
        {"first": first, "large": large, "empty": empty, "broken": broken, "gone": gone}[what](page)
except (Broken, OSError, KeyError, TypeError) as e:
    result("the page in a browser: " + what, False, repr(e))
