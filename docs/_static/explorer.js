// The verdict explorer: reads the rules that explorer.py wrote into the page.
// decide() does what classify() does; tests/site compares the two.
"use strict";
{
  const data = JSON.parse(document.getElementById("explorer-data").textContent);
  const form = document.getElementById("explorer");
  const byCode = new Map(data.errors.filter((e) => e.code !== null).map((e) => [e.code, e]));
  const byName = new Map(data.errors.map((e) => [e.name, e]));
  const byClass = new Map(data.errors.map((e) => [e.classes[0], e]));

  /** The error of a code or a class; a code that Kafka does not have keeps its number. */
  const errorOf = (key) =>
    typeof key === "number"
      ? byCode.get(key) ?? { ...data.unknown, code: key, means: "A code that Kafka does not have." }
      : byClass.get(key);

  /** The rule that decides: the first that matches. */
  const decide = (error, context) => {
    const known = {
      client: null, flag: null, null_key: null, compacted: null, tiered: null,
      idempotent: null, transactional: false, phase: null, ...context,
    };
    if (known.flag === "reported")
      for (const [fact, value] of Object.entries(error.implied)) known[fact] = value;
    let api = context.api ?? "";
    if (!api && ["commit", "abort"].includes(known.phase)) api = "EndTxn";
    return data.rules.find((rule) =>
      (rule.apis === null || rule.apis.includes(api)) &&
      Object.entries(rule.when).every(([fact, values]) => values.includes(known[fact])) &&
      (rule.on.length === 0 || rule.on.some((signal) =>
        signal === error.code || error.classes.includes(signal))));
  };

  /** Find the error in a text: {error, reported}, or null. */
  const read = (text) => {
    text = text.trim();
    if (/^-?\d{1,9}$/.test(text)) return { error: errorOf(Number(text)), reported: false };
    const name = byName.get(text.toUpperCase());
    if (name) return { error: name, reported: name.code === null };
    const lines = text.split("\n").filter((line) => line.trim()).reverse();
    for (const line of lines) {
      const number = [...line.matchAll(/\[Error (-?\d{1,9})\]|\bval=(-?\d{1,9})\b|\berror code:? (-?\d{1,9})\b/g)].pop();
      if (number) return { error: errorOf(Number(number[1] ?? number[2] ?? number[3])), reported: true };
      const phrase = Object.keys(data.phrases).find((words) => line.includes(words));
      if (phrase) return { error: errorOf(data.phrases[phrase]), reported: true };
      const words = (line.match(/\w+/g) ?? []).reverse();
      for (const word of words) {
        const error = byName.get(word) ?? (word in data.names ? errorOf(data.names[word]) : null);
        if (error) return { error, reported: true };
      }
    }
    return null;
  };

  const boxes = [...form.querySelectorAll("input")];
  const valueOf = (box) => ({ true: true, false: false })[box.value] ?? box.value;

  /** What the form says beside the error. */
  const contextOf = () => {
    const context = {};
    for (const select of form.querySelectorAll("select"))
      if (select.value) context[select.name] = select.value;
    for (const box of boxes) if (box.checked) context[box.name] = valueOf(box);
    return context;
  };

  const make = (tag, text, ...children) => {
    const node = document.createElement(tag);
    if (text) node.textContent = text;
    node.append(...children);
    return node;
  };

  const facts = (rows) => make("dl", "", ...rows.filter(([, value]) => value).flatMap(
    ([label, value]) => [make("dt", label), make("dd", value)]));

  const table = (headings, rows) => {
    const line = (tag, cells) => make("tr", "", ...cells.map((cell) =>
      cell instanceof Node ? make(tag, "", cell) : make(tag, cell)));
    const made = make("table", "", make("thead", "", line("th", headings)),
      make("tbody", "", ...rows.map((row) => line("td", row))));
    made.className = "docutils";
    const wrapper = make("div", "", made);
    wrapper.className = "table-wrapper docutils container";
    return wrapper;
  };

  /** Each single box that changes the rule. */
  const otherwise = (error, context, decided) => boxes.filter((box) => !box.checked)
    .map((box) => [box, decide(error, { ...context, [box.name]: valueOf(box) })])
    .filter(([, rule]) => rule.id !== decided.id)
    .map(([box, rule]) => {
      const button = make("button", box.parentNode.textContent.trim());
      button.type = "button";
      button.onclick = () => { box.checked = true; choose(box); };
      return [button, rule.action, rule.says];
    });

  const behaviour = (error, context) => {
    const rows = error.does.filter((row) => !context.api || !row.api || row.api === context.api);
    const shown = context.client ? [context.client] : data.clients;
    return rows.length === 0 ? [] : [
      make("h4", "What clients do by themselves"),
      table(["Request", ...shown], rows.map((row) => [row.api ?? "any", ...shown.map((c) => row[c])])),
    ];
  };

  const show = () => {
    const text = form.elements.error.value;
    const found = text.trim() ? read(text) : null;
    const output = form.querySelector("output");
    keep();
    if (!found) {
      const words = text.trim()
        ? "No Kafka error found in this text. kafkaguard explain reads whole tracebacks."
        : "Type a code or paste a text, or choose a code in the table below.";
      return output.replaceChildren(make("p", words));
    }
    const { error } = found;
    const context = contextOf();
    if (found.reported && !context.flag) context.flag = "reported";
    const rule = decide(error, context);
    const number = error.code === null ? "" : ` (${error.code})`;
    const step = make("p", "", make("strong", rule.action), `: ${rule.says}`);
    step.className = "step";
    const others = otherwise(error, context, rule);
    output.replaceChildren(
      make("h3", `${error.name}${number}`),
      make("p", error.means),
      step,
      facts([
        ["Written", rule.written],
        ["Why", rule.scenario],
        ["Rule", `${rule.id} (${rule.source})`],
        ["Class", `kafkaguard.errors.${rule.class ?? error.classes[0]}`],
        ["Judged as", context.flag ? "what a client reports after it has given up" : "a bare answer of a broker"],
      ]),
      ...(others.length ? [make("h4", "It depends"), table(["If", "Next step", "Because"], others)] : []),
      ...behaviour(error, context),
    );
  };

  /** The address keeps the choice, so that it can be sent to somebody. */
  const keep = () => {
    const kept = new URLSearchParams();
    for (const field of form.elements)
      if (field.name && field.value && (field.type !== "checkbox" || field.checked))
        kept.append(field.name, field.value);
    const query = kept.toString();
    history.replaceState(null, "", location.pathname + (query ? `?${query}` : "") + location.hash);
  };

  const restore = () => {
    const kept = new URLSearchParams(location.search);
    for (const field of form.elements)
      if (field.type === "checkbox") field.checked = kept.getAll(field.name).includes(field.value);
      else if (field.name) field.value = kept.get(field.name) ?? "";
  };

  /** Of the boxes about one fact, at most one is ticked. */
  const choose = (box) => {
    if (box.checked)
      for (const other of boxes)
        if (other !== box && other.name === box.name) other.checked = false;
    show();
  };

  form.addEventListener("input", (event) => choose(event.target));
  form.addEventListener("submit", (event) => event.preventDefault());
  restore();
  form.hidden = false;
  show();
  // For the tests.
  window.explorer = { decide, read, errorOf, byClass };
}
