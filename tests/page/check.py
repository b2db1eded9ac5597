#!/usr/bin/env python3
"""check.py FOLDER CASE...: the page in a real browser, opened from disk, with the network off.

Each case prints "CASE passed" or what is wrong; pictures stay in FOLDER.
"""
import os
import sys
import time

import browser

FOLDER = "."


def need(holds, text):
    if not holds:
        raise browser.Failed(text)


def quiet(b):
    need(not b.complaints(), "; ".join(b.complaints()))


def middle(b, x, y):
    """A point of the drawing, as shares of its map."""
    return b.js(f"(() => {{ const r = stage.getBoundingClientRect(); return [r.left + box.left + {x} * box.width, r.top + box.map + {y} * (box.bottom - box.map)]; }})()")


def opens(b):
    b.open("small.html")
    b.wait("mapExact")
    quiet(b)
    need(b.js("document.title").startswith("resnet18: Fits:"), b.js("document.title"))
    need("equals the planned peak" in b.js("$('foot').textContent"), b.js("$('foot').textContent"))
    need(b.js("getComputedStyle(document.body).visibility") == "visible", "hidden")
    b.screenshot(FOLDER + "/light.png")


def adds_up_everywhere(b):
    """At ops all over the step the table sums to the peak; the parts do, too."""
    b.open("small.html")
    bad = b.js("(() => { const bad = []; for (let s = 0; s < plan.ops; s += s % 40 < 8 ? 1 : 8) { setMoment(s, true); const all = rows.reduce((t, r) => t + r.bytes, 0); if (all !== plan.peak) bad.push(s); } return bad; })()")
    need(not bad, f"ops {bad[:5]} do not add up")
    need(b.js("plan.parts.planned_bytes.reduce((a, b) => a + b, 0) === plan.peak"), "the parts do not add up")
    quiet(b)


def hovers(b):
    b.open("small.html")
    b.js("stage.scrollIntoView()")
    x, y = middle(b, .5, .97)
    b.mouse("mouseMoved", x, y)
    b.wait("$('card').style.visibility === 'visible'")
    text = b.js("$('card').innerText")
    for word in ("size", "offset", "born", "kept for"):
        need(word in text, f"{word} is not in the card: {text}")
    b.screenshot(FOLDER + "/hover.png", whole=False)
    b.click(x, y)
    b.wait("selected >= 0")
    need(b.js("$('chosen').innerText").count("\n") > 3, "the chosen buffer is not shown")
    b.screenshot(FOLDER + "/selected.png", whole=False)
    quiet(b)


def zooms(b):
    b.open("small.html")
    b.js("stage.scrollIntoView()")
    before = b.js("view.x1 - view.x0")
    x, y = middle(b, .5, .5)
    for _ in range(5):
        b.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120)
    b.wait(f"view.x1 - view.x0 < {before} * .5")
    left = b.js("view.x0")
    b.mouse("mousePressed", x, y, button="left", clickCount=1)
    for i in range(1, 9):
        b.mouse("mouseMoved", x + 12 * i, y, button="left")
    b.mouse("mouseReleased", x + 96, y, button="left", clickCount=1)
    b.wait(f"view.x0 < {left}")
    b.wait("mapExact")
    b.screenshot(FOLDER + "/zoomed.png", whole=False)
    b.js("$('fit').click()")
    b.wait("Math.abs(view.x1 - home.x1) < 1e-6")
    quiet(b)


def filters_and_sorts(b):
    b.open("small.html")
    all_rows = b.js("listed.length")
    b.js("$('filter').focus()")
    b.type("weight")
    b.wait(f"listed.length < {all_rows}")
    need(b.js("listed.every(r => r.name.includes('weight'))"), "the filter lets others through")
    need("filtered out" in b.js("$('foot').textContent"), "it is not said what is hidden")
    b.key("Escape")
    b.wait(f"listed.length === {all_rows}")
    need(b.js("listed.every((r, i) => !i || listed[i - 1].bytes >= r.bytes)"), "not sorted by size")
    b.js("$('columns').querySelector('[data-sort=name]').click()")
    need(b.js("listed.every((r, i) => !i || listed[i - 1].name <= r.name)"), "not sorted by name")
    need(b.js("$('columns').querySelector('[aria-sort]').textContent") == "name", "aria-sort")
    b.js("$('bykind').click()")
    need(b.js("$('grouprows').textContent").find("conv2d") >= 0, "no kinds of ops")
    total = b.js("groups().reduce((t, g) => t + g.ns, 0)")
    need(abs(total - b.js("plan.time[plan.ops]")) < 1e-3 * total, "times of groups do not add up")
    quiet(b)


def keys(b):
    """Everything without a mouse: moments, buffers, zoom, filter, help."""
    b.open("small.html")
    b.js("stage.focus()")
    at = b.js("moment")
    b.key("ArrowLeft")
    need(b.js("moment") == at - 1, "left")
    b.key("p")
    need(b.js("moment") == at, "p")
    b.key("ArrowUp")
    need(b.js("selected") >= 0, "up selects a buffer")
    need("op" in b.js("stage.getAttribute('aria-valuetext')"), "a screen reader hears nothing")
    b.key("+")
    b.wait("view.x1 - view.x0 < home.x1 * .6")
    b.key("0")
    b.wait("view.x1 - view.x0 > home.x1 * .99")
    b.key("x")
    need(b.js("axis") == "time", "x")
    b.key("/")
    need(b.js("document.activeElement.id") == "filter", "/")
    b.key("Escape")
    b.key("?")
    need(b.js("$('keys').open"), "?")
    b.key("Escape")
    missing = b.js("[...document.querySelectorAll('button, input, select')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label'))).length")
    need(missing == 0, f"{missing} controls have no name")
    quiet(b)


def looks(b):
    """Dark, patterns, narrow, paper."""
    b.open("small.html", "?theme=dark")
    b.wait("mapExact")
    b.screenshot(FOLDER + "/dark.png")
    need(b.js("getComputedStyle(document.body).backgroundColor") == "rgb(13, 16, 21)", "not dark")
    b.js("$('patterns').click()")
    b.size(390, 844, 2)
    b.open("small.html", "?theme=light&patterns")
    b.wait("mapExact")
    need(b.js("document.documentElement.scrollWidth <= innerWidth"), "wider than a telephone")
    b.screenshot(FOLDER + "/narrow.png")
    b.size(1280, 900)
    b.open("small.html")
    b.pdf(FOLDER + "/paper.pdf")
    need(os.path.getsize(FOLDER + "/paper.pdf") > 20000, "nothing was printed")
    quiet(b)


def measures(b):
    """A profile: both columns, both sums, and whether planned and measured agree op by op."""
    b.open("profile.html")
    b.wait("$('partrows').textContent.includes('peak')")
    need(b.js("$('partrows').querySelectorAll('.total .ok').length") == 2, "a sum does not add up")
    need("at all" in b.js("$('agreement').textContent"), "planned and measured differ")
    need(b.js("plan.agree().ops === plan.ops && plan.agree().equal === plan.ops"), "not every op was measured")
    b.js("$('partcard').scrollIntoView()")
    b.screenshot(FOLDER + "/profile.png", whole=False)
    quiet(b)


def cut(b):
    """A truncated recording opens, and says so."""
    b.open("cut.html")
    need("incomplete" in b.js("$('note').textContent") or "truncated" in b.js("$('note').textContent"), "it does not say so")
    quiet(b)


def foreign(b):
    """A snapshot of PyTorch: events and no ops, lines of Python for names."""
    b.open("foreign.html")
    b.wait("mapExact")
    need(b.js("plan.foreign()"), "not seen as allocations")
    need(b.js("rows.some(r => r.name.includes('train.py'))"), "no line of Python")
    need("PyTorch" in b.js("$('note').textContent"), "no note")
    quiet(b)


def large(b):
    """Many buffers: the picture comes, and moves without one."""
    b.open("large.html")
    b.wait("mapExact")
    need(b.js("plan.count") == 30000, "buffers are missing")
    need(b.js("(() => { let moved = false; const p = Object.create(plan); p.column = {...plan.column}; p.permute = () => { moved = true; }; p.sort(); return !moved; })()"), "the page had to sort")
    need(b.js("performance.getEntriesByName('preview').length") == 1, "no picture before the recording was read")
    o = b.js("(() => { const o = JSON.parse($('overview').textContent), s = c => c.reduce((a, x) => a + x, 0); return [o.live.length, Math.max(...o.live.map(s)) - plan.total[plan.largest(0, plan.ops)], o.map.length, o.map[0].length]; })()")
    need(o == [512, 0, 96, 512], f"the first picture is another one: {o}")
    before = layouts(b)
    f = b.js(frames("pan", 40), 60)
    need(f["median"] > 0, "nothing moved")
    need(layouts(b) - before < 8, f"{layouts(b) - before} layouts of the page in 40 frames of a pan: the text beside it must wait")
    quiet(b)


# Two columns of tiles beside the same drawn at once: the share of pixels that differ by more than rounding.
TILED = """(async () => {
    const canvas = () => { const c = document.createElement('canvas'); c.width = 2 * TILE; c.height = 900; return c.getContext('2d', {willReadFrequently: true}); };
    const differ = (a, b, h) => { const p = a.getImageData(0, 0, 2 * TILE, h).data, q = b.getImageData(0, 0, 2 * TILE, h).data; let n = 0, any = 0;
        for (let i = 0; i < p.length; i++) { if (Math.abs(p[i] - q[i]) > 24) n++; if (p[i] !== p[0]) any++; } return any ? n / p.length : 1; };
    const ux = pitch(), k = Math.ceil(view.x0 / ux / TILE), one = canvas(), two = canvas(), tall = Math.round((box.upper + 28) * dpr);
    texture = {none: 'transparent'};
    const set = uppers.set('test', ux, 1, tall), {at, who} = columnsOf(k * TILE * ux, (k + 2) * TILE * ux, 0, 2 * TILE / dpr);
    for (const i of [0, 1]) one.drawImage(drawUpperTile(set, k + i), i * TILE, 0);
    two.scale(dpr, dpr);
    layers(two, at, who, box.yOf, box.upper);
    const upper = differ(one, two, Math.floor(box.upper));
    const s = maps.sets.find(x => same(x.ux, ux)), j = Math.floor((view.y0 + view.y1) / 2 / s.uy / s.tall), map = [canvas(), canvas()];
    for (const i of [0, 1]) map[0].drawImage(maps.get(s, k + i, j), i * TILE, 0);
    ask(s, k, j);
    const wide = {...asked, id: -1, W: 2 * TILE}, keep = worker.onmessage;
    await new Promise(done => { worker.onmessage = e => { if (e.data.id !== -1) return keep(e); map[1].drawImage(e.data.bitmap, 0, 0); worker.onmessage = keep; done(); }; worker.postMessage(wide); });
    textures();
    return {upper, map: differ(map[0], map[1], s.tall)};
})()"""


def tiles(b):
    """A picture put together from tiles has the pixels of one drawn at once; stores keep to their bytes, the whole stays."""
    b.open("large.html")
    b.wait("mapExact")
    b.js("view = bound({x0: home.x1 * .3, x1: home.x1 * .34, y0: home.y1 * .1, y1: home.y1 * .6}); paint()")
    b.wait("mapExact && !inMotion && seen.x0 === view.x0")
    off = b.js(TILED, 60)
    need(off["upper"] < .002, f"{off['upper']:.2%} of the upper chart's pixels differ from its tiles")
    need(off["map"] < .002, f"{off['map']:.2%} of the map's pixels differ from its tiles")
    b.js("maps.most = 12 << 20; uppers.most = 1 << 20; 0")
    for what in ("pan", "zoom", "both"):
        b.js(frames(what, 60), 60)
    b.wait("mapExact && !inMotion && !asked && seen.x0 === view.x0", 30)
    held = b.js("[maps, uppers].map(s => [s.held, s.most, s.sets.reduce((t, x) => t + x.tiles.size * 4 * TILE * x.tall, 0)])")
    for have, most, counted in held:
        need(have == counted, f"{have} bytes are counted, {counted} held")
        need(have <= most + (4 << 20), f"{have} bytes are held, {most} allowed")
    need(b.js("maps.sets.some(s => s.whole && cells(s, home).every(([k, j]) => s.tiles.has(k + ',' + j)))"), "the picture of the whole was forgotten")
    b.js("view = {...home}; paint()")
    b.wait("mapExact")
    quiet(b)


def marks(b):
    return b.js("""(() => { const at = n => { const e = performance.getEntriesByName(n)[0]; return e ? Math.round(e.startTime) : -1; };
        return {paint: at('first-contentful-paint'), all: at('drawn'), image: at('image'), table: at('table')}; })()""")


def metric(b, name):
    return next(m["value"] for m in b.call("Performance.getMetrics")["metrics"] if m["name"] == name)


def layouts(b):
    return metric(b, "LayoutCount")


def frames(what, count):
    """Times between frames of a movement: pan along the axis, both along axes, or zoom in and out."""
    move = {"pan": "view = bound({...view, x0: view.x0 + w / 120, x1: view.x1 + w / 120})",
            "both": "(h => { view = bound({x0: view.x0 + w / 120, x1: view.x1 + w / 120, y0: view.y0 + h, y1: view.y1 + h}); })((view.y1 - view.y0) / (n < 120 ? 300 : -300))",
            "zoom": "view = zoomed(n % 120 < 60 ? .97 : 1 / .97, n % 120 < 60 ? .97 : 1 / .97, home.x1 * .41, home.y1 / 2)"}[what]
    start = {"pan": "view = bound({...home, x0: home.x1 * .4, x1: home.x1 * .4 + w})",
             "both": "view = bound({x0: home.x1 * .4, x1: home.x1 * .4 + w, y0: home.y1 * .2, y1: home.y1 * .6})",
             "zoom": "view = {...home}"}[what]
    return f"""new Promise(done => {{ const times = [], w = home.x1 / 50; {start};
    let last = performance.now(), n = 0;
    const tick = now => {{ times.push(now - last); last = now; {move}; paint(); if (++n < {count}) requestAnimationFrame(tick); else {{ times.shift(); times.sort((a, b) => a - b); done({{median: times[times.length >> 1], most: times[Math.floor(times.length * .95)], worst: times.at(-1)}}); }} }};
    requestAnimationFrame(tick); }})"""


def million(b):
    strict = os.environ.get("HEADROOM_PAGE_STRICT")
    print("| page | CPU | first paint | charts | exact image | tables | heap | panning: median, 95 %, worst frame (processor time) | in both directions | zooming |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    b.call("Performance.disable")
    b.call("Performance.enable", timeDomain="threadTicks")  # processor time, which others on the machine change little
    for name in ("small", "million"):
        for rate in (1, 4):
            b.throttle(rate)
            b.open(name + ".html", timeout=120)
            b.wait("mapExact", 60)
            m = marks(b)
            f = []
            for what in ("pan", "both", "zoom"):
                time.sleep(.5)
                before = metric(b, "TaskDuration")
                f.append(b.js(frames(what, 240), 120))
                f[-1]["processor"] = (metric(b, "TaskDuration") - before) * 1000 / 240
            size = os.path.getsize(name + ".html") / 1e6
            print(f"| {b.js('plan.count'):,} buffers, {size:.1f} MB | {rate}x slower | {m['paint']} ms | {m['all']} ms | {m['image']} ms | {m['table']} ms | {b.heap() / 1e6:.0f} MB | ".replace("1x slower", "as it is") +
                  " | ".join(f"{t['median']:.1f}, {t['most']:.1f}, {t['worst']:.1f} ms ({t['processor']:.1f})" for t in f) + " |")
            quiet(b)
            if name == "million" and rate == 1:
                b.js("glide({...home})")
                time.sleep(1)
                b.screenshot(FOLDER + "/million.png")
                need(not strict or m["all"] < 2000, f"charts after {m['all']} ms")
                for what, t in zip(("panning", "both", "zooming"), f):
                    need(not strict or t["most"] < 20, f"{what}: frames of {t['most']} ms")
    b.throttle(1)


def main():
    """A browser serves one case after another; after a failure a new one does."""
    global FOLDER
    FOLDER = os.path.abspath(sys.argv[1])
    os.chdir(FOLDER)
    cases, failed = sys.argv[2:], 0
    while cases:
        with browser.Browser() as b:
            while cases:
                case = cases.pop(0)
                try:
                    b.size(1280, 900)
                    globals()[case](b)
                    print(case, "passed", flush=True)
                except browser.Failed as why:
                    print(f"{case}: {why}", flush=True)
                    failed += 1
                    break
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
