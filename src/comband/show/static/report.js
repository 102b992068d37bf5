// A report carries plotly packed (gzip, base64), and its numbers as JSON: unpack the one and draw the others.
"use strict";

(async () => {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const element of document.querySelectorAll("[data-chart]"))
    combandCharts.draw(element.dataset.chart, element, data[element.dataset.from]);
  document.documentElement.dataset.drawn = "yes";
})();
