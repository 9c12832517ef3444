// The link that `helve up` prints has the code behind `#`, so that no server's log ever sees it.
"use strict";
(() => {
  const form = document.getElementById("sign-in");
  const next = form.elements.next.value;
  const code = decodeURIComponent(location.hash.slice(1));
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    form.elements.code.value = code;
    form.requestSubmit();
    return;
  }
  // A link from elsewhere comes without the cookie although there is one: it is sent from here.
  fetch("/v1/me", { headers: { accept: "application/json" } })
    .then((answer) => (answer.ok ? answer.json() : null))
    .then((me) => me && me.purpose === "decide" && location.replace(next))
    .catch(() => {});
})();
