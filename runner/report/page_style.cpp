#include "runner/report/page_style.h"

#include "core/build_info.h"
#include "runner/report/html.h"

namespace accel {
namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark;
  --ink: #1d2330; --soft: #667085; --rule: #e3e6ec; --paper: #ffffff; --tint: #f5f6f9;
  --bad: #c4320a; --good: #067647; --p0: #2f6fde; --p1: #d9730d; --p2: #178a5c; --p3: #a046c9;
  --p4: #c8324a; --p5: #0e8fa6; --p6: #8a6d1b; --p7: #6b7280; }
@media screen and (prefers-color-scheme: dark) { :root {
  --ink: #e6e9f0; --soft: #98a2b3; --rule: #2e3442; --paper: #14171f; --tint: #1c212c;
  --bad: #ff8a65; --good: #5fd3a0; --p0: #6ea0ff; --p1: #f5a45c; --p2: #4fc795; --p3: #cb8bea;
  --p4: #f2798b; --p5: #4fc3d9; --p6: #cfb25a; --p7: #9aa3b2; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem clamp(.8rem, 3vw, 2rem) 3rem; max-width: 76rem;
  font: 15px/1.45 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
h3 { font-size: .95rem; margin: 0; }
header { display: flex; flex-wrap: wrap; gap: .3rem .8rem; align-items: center;
  margin-bottom: 1rem; }
header p { flex-basis: 100%; margin: 0; color: var(--soft); overflow-wrap: anywhere; }
.badge { border: 1px solid; border-radius: 1rem; padding: 0 .7rem; font-size: .85rem;
  color: var(--soft); }
.badge.finished, .badge.running { color: var(--good); }
.badge.failed, .badge.crashed { color: var(--bad); }
.cards { display: grid; gap: .6rem; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); }
.card { background: var(--tint); border-radius: .6rem; padding: .55rem .8rem; min-width: 0; }
.card span, .card small { display: block; color: var(--soft); font-size: .8rem;
  overflow-wrap: anywhere; }
.card b { font-size: 1.25rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.trouble { border-left: 3px solid var(--bad); background: var(--tint); margin: 1rem 0;
  padding: .6rem 1rem .6rem 2rem; overflow-wrap: anywhere; }
.charts { display: grid; gap: 1rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); }
figure { margin: 0; padding: .7rem .8rem .4rem; border: 1px solid var(--rule);
  border-radius: .6rem; break-inside: avoid; min-width: 0; }
figcaption { display: flex; flex-wrap: wrap; gap: .1rem .9rem; align-items: baseline; }
svg { display: block; width: 100%; height: auto; }
.key { font-size: .82rem; color: var(--soft); overflow-wrap: anywhere; }
.key b { color: var(--ink); font-weight: 600; font-variant-numeric: tabular-nums; }
.key.faint i { opacity: .45; }
.key i { display: inline-block; width: .7rem; height: .7rem; margin-right: .35rem;
  border-radius: .2rem; background: var(--c); }
.note { color: var(--soft); font-size: .78rem; margin: .2rem 0; }
.grid path { stroke: var(--rule); stroke-width: 1; fill: none; }
svg text { fill: var(--soft); font-size: 13px; }
.line { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round; }
.line.faint { stroke-width: 1; opacity: .38; }
.band { fill: var(--c); opacity: .22; }
.dot { fill: var(--c); }
.part { fill: var(--c); }
.mark { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 3; }
.mark.bad { stroke: var(--bad); stroke-dasharray: none; }
.c0 { --c: var(--p0); } .c1 { --c: var(--p1); } .c2 { --c: var(--p2); } .c3 { --c: var(--p3); }
.c4 { --c: var(--p4); } .c5 { --c: var(--p5); } .c6 { --c: var(--p6); } .c7 { --c: var(--p7); }
.split svg { height: 1.6rem; border-radius: .4rem; }
.split p { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: .5rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .28rem .8rem .28rem 0;
  border-bottom: 1px solid var(--rule); overflow-wrap: anywhere; min-width: 4rem; }
th { color: var(--soft); font-weight: 500; }
td.time { color: var(--soft); }
td.event, td.time { white-space: nowrap; }
td.best { color: var(--good); font-weight: 600; }
tr.bad td { color: var(--bad); }
pre { background: var(--tint); border-radius: .6rem; padding: .8rem; overflow-x: auto;
  font-size: .8rem; line-height: 1.4; }
pre i { color: var(--soft); font-style: normal; }
.samples { display: flex; flex-wrap: wrap; gap: .6rem; }
.samples img { width: 7rem; image-rendering: pixelated; border: 1px solid var(--rule);
  border-radius: .3rem; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .8rem; }
@media print {
  body { max-width: none; padding: 0; font-size: 11px; }
  .charts { grid-template-columns: 1fr 1fr; }
  .cards { grid-template-columns: repeat(5, 1fr); }
  .card, .band, .part, .key i, pre, .trouble { print-color-adjust: exact;
    -webkit-print-color-adjust: exact; }
  pre { white-space: pre-wrap; overflow: visible; }
  .wide { overflow: visible; }
  tr, .cards { break-inside: avoid; }
  h2 { break-after: avoid; }
}
)css";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  const BuildInfo build = build_info();
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\">\n<title>";
  out += html_text(title);
  out += "</title>\n<style>";
  out += kStyle;
  out += "</style></head>\n<body>\n";
  out += body;
  out += "<footer>accel-run ";
  out += html_text(build.version);
  out += " (";
  out += html_text(build.commit);
  out += ")</footer>\n</body></html>\n";
  return out;
}

}  // namespace accel
