
"use strict";
// The button overrides the system's choice between light and dark, and is remembered if it may be.
(function () {
  const root = document.documentElement, button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  try { const kept = localStorage.getItem("softset-theme"); if (kept) root.dataset.theme = kept; }
  catch (e) { /* no storage: the system's choice */ }
  // On paper everything is unfolded.
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((e) => { e.open = true; });
  });
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("softset-theme", root.dataset.theme); } catch (e) { /* as above */ }
  });
})();
