// Light or dark, as chosen before. Runs before the page is drawn.
"use strict";
try {
  const theme = localStorage.getItem("helve-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Without storage it is as the system says.
}
