/* Judges the contrast of each look once. Most of what axe-core needs for a page goes into the contrast of its texts, and
   most texts look like another one that it has found to be well: the same colours and font over the same backgrounds.

   A look holds what decides between well and too low: a text's own colour, size, weight and shadow, and the colour and
   opacity of each element that it stands in. A text is judged in any case where a look cannot tell: something that is no
   ancestor lies over or under it, or it reaches out of an ancestor that has a colour. What is not well, or what axe cannot
   say, is kept by nobody: it is judged, and told, each time.

   `berthLooks(known)` begins with the looks known from other pages, and returns a function that gives those found here.
   With null each text is judged. */
"use strict";

window.berthLooks = (known) => {
  const check = axe._audit.checks["color-contrast"];
  const judge = (check.berthJudge = check.berthJudge || check.evaluate);
  check.evaluate = judge;
  if (known === null) { return () => []; }
  const well = new Set(known);
  const found = [];
  const style = (element) => getComputedStyle(element);
  const clear = (colour) => colour === "transparent" || /^rgba\(.*, 0\)$/.test(colour);
  const painters = [...document.querySelectorAll("*")].filter((each) => !clear(style(each).backgroundColor));
  // The root's colour, or else the body's, is that of the whole page, wherever their boxes end.
  const canvas = [document.documentElement, document.body].find((each) => painters.includes(each));
  const boxes = painters.filter((each) => each !== canvas).map((each) => [each, each.getBoundingClientRect()]);
  const below = new Map();

  /* What an element and its ancestors lay under a text. */
  function ground(element) {
    if (!element) { return ""; }
    if (!below.has(element)) {
      const own = style(element);
      const paint = [clear(own.backgroundColor) ? "" : own.backgroundColor, own.backgroundImage, own.opacity, own.mixBlendMode].join(" ");
      below.set(element, paint === " none 1 normal" ? ground(element.parentElement) : `${ground(element.parentElement)}/${paint}`);
    }
    return below.get(element);
  }

  /* Where an element's own text stands. */
  function places(element) {
    const range = document.createRange();
    const texts = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    const found = texts.flatMap((node) => { range.selectNodeContents(node); return [...range.getClientRects()]; });
    return found.length ? found : [element.getBoundingClientRect()];
  }

  const inside = (place, box) =>
    place.left >= box.left - 1 && place.right <= box.right + 1 && place.top >= box.top - 1 && place.bottom <= box.bottom + 1;
  const meets = (place, box) =>
    place.left < box.right && place.right > box.left && place.top < box.bottom && place.bottom > box.top;

  /* The look of a text; null where what stands beside the ancestors could matter. */
  function look(element) {
    const where = places(element);
    for (const [painter, box] of boxes) {
      if (painter.contains(element) ? !where.every((place) => inside(place, box)) :
        !element.contains(painter) && where.some((place) => meets(place, box))) { return null; }
    }
    const own = style(element);
    const text = [own.color, own.fontSize, own.fontWeight, own.textShadow, own.webkitTextStrokeWidth, own.webkitTextStrokeColor];
    return `${text.join(" ")} on ${ground(element)}`;
  }

  check.evaluate = function (element, options, virtual, context) {
    const seen = look(element);
    if (seen !== null && well.has(seen)) { this.data({ messageKey: null }); return true; }
    let ratio = null;
    const told = Object.create(this, { data: { value: (data) => { ratio = data && data.contrastRatio; this.data(data); } } });
    const result = judge.call(told, element, options, virtual, context);
    if (result === true && typeof ratio === "number" && seen !== null) { well.add(seen); found.push(seen); }
    return result;
  };
  return () => found;
};
