// Fills the switch of the sidebar with the versions that `make docs` has built side by side.
(function () {
  const select = document.getElementById("versions");
  const here = select.options[0].text;
  for (const version of window.COMBAND_VERSIONS || []) {
    if (version !== here) select.add(new Option(version));
  }
  select.addEventListener("change", function () {
    location.href = select.dataset.root + "../" + select.value + "/index.html";
  });
})();
