// The link that `helve up` prints has the code behind `#`, so that no server's log ever sees it.
"use strict";

// Goes on to where somebody is signed in already. Their cookie is sent nowhere but below its place, which only
// pages of this origin remember.
async function goOn(next) {
  const question = next.match(/^\/approvals\/(\w+)$/)?.[1];
  for (const slot of ["helve-place", `helve-place-${question}`]) {
    const place = localStorage.getItem(slot);
    if (!/^\/~[0-9a-f]{64}$/.test(place)) continue;
    const answer = await fetch(`${place}/v1/me`, { headers: { accept: "application/json" } });
    if (answer.ok) return location.replace(place + next);
    if (answer.status === 401) localStorage.removeItem(slot);
  }
}

(() => {
  const form = document.getElementById("sign-in");
  const code = decodeURIComponent(location.hash.slice(1));
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    form.elements.code.value = code;
    form.requestSubmit();
    return;
  }
  // Without storage, or without the server, the form stands here.
  goOn(form.elements.next.value).catch(() => {});
})();
