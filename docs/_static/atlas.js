// Filters the rows of atlas_data.js: client, request, code, how often, guarded.
"use strict";
(() => {
  const { columns, rows } = window.ATLAS;
  const form = document.getElementById("atlas-form");
  const table = document.getElementById("atlas-rows");
  const most = 200;
  const chosen = columns.slice(0, 5).map((name, column) => {
    const select = document.createElement("select");
    select.append(new Option(`any ${name}`, ""));
    for (const value of new Set(rows.map((row) => row[column]))) {
      select.append(new Option(value, value));
    }
    select.setAttribute("aria-label", name);
    if (name === "request") select.value = "Produce";
    select.addEventListener("change", draw);
    form.append(select, " ");
    return select;
  });
  function draw() {
    const found = rows.filter((row) =>
      chosen.every(({ value }, column) => !value || row[column] === value));
    document.getElementById("atlas-count").textContent =
      `${found.length} of ${rows.length}` +
      (found.length > most ? `, the first ${most} are shown` : "");
    table.replaceChildren();
    const head = table.createTHead().insertRow();
    // A column whose value is chosen says nothing.
    const shown = [...columns.keys()].filter((column) => !chosen[column]?.value);
    for (const column of shown) {
      const name = columns[column];
      head.append(Object.assign(document.createElement("th"), { textContent: name }));
    }
    const body = table.createTBody();
    for (const row of found.slice(0, most)) {
      const line = body.insertRow();
      for (const column of shown) {
        const [first, ...others] = row[column].split("_");  // a line may end there
        line.insertCell().append(
          first, ...others.flatMap((part) => ["_", document.createElement("wbr"), part]));
      }
    }
  }
  draw();
})();
