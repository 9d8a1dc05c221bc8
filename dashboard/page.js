// The live page: which runs are looked at, panels fetched as HTML from the server, news by server-sent events, the slider
// over the steps of an episode, and values read off charts. Everything that is drawn comes from the server, escaped there.
"use strict";

const chosen = new Set();          // names of runs
let numbers = new Map();           // name of a run -> its number; a server that is started anew numbers anew
let shown = "";                    // the runs that the panels are of
const place = { round: "", env: "", step: "" }; // of the network and of decisions; "" = the newest, the best, the last
const drawn = new Map();           // panel name -> the text it was drawn from
const asking = new Map();          // panel name -> what ends its newest request
let panels = [];                   // for the chosen runs
let isStale = false, running = null; // what is drawn now is to be drawn anew; the promise of its end

const byId = (id) => document.getElementById(id);
const say = (words, kind) => { byId("state").textContent = words; byId("state").className = kind; };

async function get(path, options) {
  const answer = await fetch(path, options);
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer;
}

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// --- runs ---

async function listRuns() {
  const runs = await (await get("/api/runs")).json(), list = byId("runs");
  numbers = new Map(runs.map((run) => [run.name, run.id]));
  const known = new Map([...list.querySelectorAll("input")].map((box) => [box.value, box]));
  if (known.size === 0) chooseFirst(runs);
  for (const [name, box] of known) if (!numbers.has(name)) box.parentElement.remove();
  for (const name of numbers.keys()) {
    if (known.has(name)) continue;
    const box = make("input", { type: "checkbox", value: name, checked: chosen.has(name) });
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(name); else chosen.delete(name);
      place.round = place.env = place.step = "";
      rememberChoice();
      update();
    });
    list.append(make("label", { title: name }, box, name));
  }
}

// The address keeps the choice, so that it can be sent to somebody.
function rememberChoice() {
  const names = [...chosen].map((name) => encodeURIComponent(name).replaceAll("%2F", "/"));
  history.replaceState(null, "", names.length ? "#runs=" + names.join(",") : "#");
}

function chooseFirst(runs) {
  const wanted = /^#runs=(.+)$/.exec(location.hash);
  try {
    for (const name of wanted ? wanted[1].split(",") : []) chosen.add(decodeURIComponent(name));
  } catch {
    // no address that was written here
  }
  if (!wanted && runs.length) chosen.add(runs[runs.length - 1].name);
}

// The chosen runs that the server has.
const present = () => [...chosen].filter((name) => numbers.has(name));

// --- panels ---

function question() {
  const parts = new URLSearchParams({ runs: present().map((name) => numbers.get(name)).join(",") });
  for (const key of ["round", "env", "step"]) if (place[key] !== "") parts.set(key, place[key]);
  return parts.toString();
}

const isLaidOut = () => shown === JSON.stringify(present());

// An empty section for each panel of the chosen runs.
async function layOut() {
  const home = byId("panels");
  const tell = (words) => home.replaceChildren(make("p", { className: "empty wide" }, words));
  panels = [];
  drawn.clear();
  shown = JSON.stringify(present());
  if (chosen.size === 0) return tell("Choose a run above: its panels appear here.");
  if (present().length === 0) return tell("There is no such run here: " + [...chosen].join(", "));
  try {
    panels = await (await get("/api/panels?" + question())).json();
  } catch (error) {
    shown = "";                    // the next update tries again
    return tell("This run cannot be shown: " + error.message);
  }
  home.replaceChildren(...panels.map((panel) =>
    make("section", { id: "panel-" + panel.name, className: "panel" + (panel.is_wide ? " wide" : "") },
      make("h2", {}, panel.title), make("p", { className: "empty" }, "Loading."))));
}

async function drawPanel(panel) {
  let text;
  asking.get(panel.name)?.abort(); // an answer to it would be older than the one that is asked for now
  const request = new AbortController();
  asking.set(panel.name, request);
  try {
    text = await (await get(`/panel/${panel.name}?${question()}`, { signal: request.signal })).text();
  } catch (error) {
    return;                        // the state line says when the server is gone
  }
  const section = byId("panel-" + panel.name);
  if (request.signal.aborted || !section || drawn.get(panel.name) === text) return;
  drawn.set(panel.name, text);
  const scrolls = [...section.querySelectorAll(".scroll")].map((part) => [part.scrollLeft, part.scrollTop]);
  const fresh = document.createRange().createContextualFragment(text).firstElementChild;
  if (section.querySelector("details[open]") && fresh.querySelector("details")) fresh.querySelector("details").open = true;
  replaceParts(section, fresh);
  section.querySelectorAll(".scroll").forEach((part, i) => { if (scrolls[i]) [part.scrollLeft, part.scrollTop] = scrolls[i]; });
  if (panel.name === "environments") addChoice(section);
  section.querySelectorAll(".chart svg[data-x]").forEach(addReading);
}

// Replaces all but the controls, which somebody may be dragging or typing in: those stay in the document.
function replaceParts(section, fresh) {
  const steps = fresh.querySelector(".steps"), parts = [...fresh.childNodes], at = parts.indexOf(steps);
  if (!steps) return section.replaceChildren(...parts);
  const controls = section.querySelector(".controls") || makeControls(steps.dataset.whole === "1");
  if (!section.contains(controls)) section.replaceChildren(controls);
  setControls(controls, steps.dataset);
  for (const part of [...section.childNodes]) if (part !== controls) part.remove();
  controls.before(...parts.slice(0, at));
  controls.after(...parts.slice(at + 1));
}

// Draws all panels; whether that could be done. Called while it runs, it makes it run once more.
function update() {
  isStale = true;
  running ??= drawAll().finally(() => { running = null; });
  return running;
}

async function drawAll() {
  try {
    while (isStale) {
      isStale = false;
      await listRuns();
      if (!isLaidOut()) await layOut();
      for (const panel of panels) if (isLaidOut()) await drawPanel(panel);
    }
  } catch (error) {
    say("no update: " + error.message, "lost");
    return false;
  }
  document.body.dataset.updates = String(Number(document.body.dataset.updates || 0) + 1);
  return true;
}

// --- the network's steps ---

function makeControls(isWhole) {
  const controls = make("div", { className: "controls" });
  const number = (name, label) => {
    const field = make("input", { type: "number", id: "pick-" + name, min: "0" });
    field.addEventListener("change", () => { place[name] = field.value; place.step = ""; update(); });
    controls.append(make("label", {}, label, field));
  };
  if (!isWhole) number("round", "round");
  number("env", isWhole ? "candidate" : "environment");
  const slider = make("input", { type: "range", id: "pick-step", min: "0" }), output = make("output");
  slider.addEventListener("input", async () => {
    output.textContent = place.step = slider.value;
    place.round = isWhole ? "" : controls.dataset.round;
    place.env = controls.dataset.env;
    asking.get("network")?.abort();
    try {
      await listRuns();
    } catch (error) {
      return say("no update: " + error.message, "lost");
    }
    drawPanel({ name: "network" });
  });
  controls.append(make("label", {}, isWhole ? "epoch" : "step", slider, output));
  const newest = make("button", { type: "button" }, "newest");
  newest.addEventListener("click", () => { place.round = place.env = place.step = ""; update(); });
  controls.append(newest);
  return controls;
}

// Shows the place that the server chose; a field with the focus and a step chosen here stay as they are.
function setControls(controls, data) {
  Object.assign(controls.dataset, data);
  for (const name of ["round", "env"]) {
    const field = controls.querySelector("#pick-" + name);
    if (field && field !== document.activeElement) field.value = data[name];
  }
  const slider = controls.querySelector("#pick-step");
  slider.parentElement.hidden = Number(data.last) < 0;
  slider.max = Math.max(Number(data.last), 0);
  if (place.step === "") slider.value = slider.nextSibling.textContent = data.step;
}

function addChoice(section) {
  for (const button of section.querySelectorAll("button.env")) {
    button.setAttribute("aria-pressed", String(button.dataset.env === place.env));
    button.addEventListener("click", () => {
      place.env = button.dataset.env;
      place.step = "";
      for (const other of section.querySelectorAll("button.env")) other.setAttribute("aria-pressed", String(other === button));
      update();
    });
  }
}

// --- values of a chart ---

// A scale "low high begin end" of the drawing, turned round.
function inverse(text) {
  const [low, high, begin, end] = text.split(" ").map(Number);
  return (at) => low + (at - begin) / (end - begin) * (high - low);
}

function addReading(svg) {
  const toX = inverse(svg.dataset.x), toY = inverse(svg.dataset.y);
  // the legend of several lines has their names one by one; a name may hold any character
  const legend = [...svg.parentElement.querySelectorAll("li")].map((entry) => entry.textContent);
  const names = legend.length ? legend : [svg.dataset.names];
  const lines = [...svg.querySelectorAll("path.line")].map((line) =>
    [...line.getAttribute("d").matchAll(/([\d.-]+) ([\d.-]+)/g)].map((point) => [Number(point[1]), Number(point[2])]));
  const all = lines.flat().map((point) => point[0]).sort((a, b) => a - b);
  if (all.length === 0) return;
  const reading = make("p", { className: "reading" });
  reading.setAttribute("aria-live", "polite");
  svg.after(reading);
  svg.tabIndex = 0;
  const cross = document.createElementNS("http://www.w3.org/2000/svg", "path");
  cross.setAttribute("class", "crosshair");
  svg.append(cross);
  let at = all[all.length - 1];
  const show = (x) => {
    at = all.reduce((best, one) => Math.abs(one - x) < Math.abs(best - x) ? one : best, all[0]);
    cross.setAttribute("d", `M${at} 12V208`);
    const values = lines.map((line, i) => {
      const point = line.find((one) => one[0] === at);
      return point && `${names[i]}: ${Number(toY(point[1]).toPrecision(4))}`;
    });
    reading.textContent = `at ${Math.round(toX(at))} ≈ ` + values.filter(Boolean).join(", ");
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    show((event.clientX - box.left) / box.width * 480);
  });
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    show(all[Math.min(Math.max(all.indexOf(at) + by, 0), all.length - 1)]);
  });
}

// --- news ---

function listen() {
  const source = new EventSource("/events");
  source.onopen = () => say("live", "live");
  source.onerror = () => say(source.readyState === EventSource.CLOSED
    ? "no live updates: the server refused them (a token is needed, or too many pages are open); reload to try again"
    : "no connection; trying again", "lost");
  let timer = 0;
  source.addEventListener("changed", () => {
    if (timer) return;             // at most one update a second
    timer = setTimeout(async () => {
      timer = 0;
      if (await update()) say("live, updated " + new Date().toLocaleTimeString(), "live");
    }, 1000);
  });
}

update().then(listen);
