// Takes the code from the fragment, which no server and no Referer ever sees, and posts it.
const code = new URLSearchParams(location.hash.slice(1)).get("code");
if (code) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("code").value = code;
  document.getElementById("login").requestSubmit();
}
