// Formulas: arithmatex marks them, KaTeX (bundled in assets/katex) renders them, also after a page change.
document$.subscribe(({ body }) => {
  for (const node of body.querySelectorAll(".arithmatex")) {
    renderMathInElement(node, {
      delimiters: [
        { left: "\\[", right: "\\]", display: true },
        { left: "\\(", right: "\\)", display: false },
      ],
      throwOnError: true,
    });
  }
});
