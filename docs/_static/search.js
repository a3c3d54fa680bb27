// In each name of the API there is "kafkaguard". The search for a name looks at its last part.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return; // not the search page
  const all = Search.performObjectSearch;
  Search.performObjectSearch = (name, terms) =>
    all(name, terms).filter(([, fullName]) => fullName.toLowerCase().split(".").pop().includes(name));
  // Sphinx 9.0 raises an error where the place of a result has no text.
  const summary = Search.makeSearchSummary;
  Search.makeSearchSummary = (...page) => summary(...page) ?? document.createElement("p");
});
