// Draws every chart over its fixed drawing, which stays where this fails. Nothing is loaded.
for (const figure of document.querySelectorAll("figure.exhibit")) {
  const live = figure.querySelector(".live");
  const options = { actions: false, renderer: "svg", defaultStyle: false, tooltip: { theme: "report" } };
  const spec = JSON.parse(figure.querySelector("script.spec").textContent);
  if (spec.usermeta?.aspect) spec.height = Math.min(spec.height, Math.ceil(live.clientWidth * spec.usermeta.aspect)); // a map
  window.drawChart(live, spec, options).then(
    () => figure.classList.add("drawn"),
    (problem) => { live.remove(); console.error(problem); },
  );
}
