// Takes the code from the fragment, which no server and no Referer ever sees, and posts it.
function redeem() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  document.getElementById("code").value = code;
  document.getElementById("login").requestSubmit();
}

addEventListener("hashchange", redeem);
redeem();
