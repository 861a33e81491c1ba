// The viewer of one picture: two layers with a slider between them, or side by side; class toggles, zoom, errors.

const view = {
  number: 0, sequence: [], left: 'truth', right: 0, kind: 'classes', opacity: 0.6, split: 0.5, isSideBySide: false,
  zoom: 1, x: 0, y: 0, shown: new Set(allClasses), found: null, layers: new Map(),
};
const MOST_ZOOM = 16;
const parts = {};

function openViewer(number, sequence) {
  view.sequence = sequence;
  if (!parts.stages) buildViewer();
  byId('viewer').showModal();
  goTo(number);
  parts.slider.focus();
}

async function goTo(number) {
  view.number = number;
  const {image, groups} = data.pictures[number];
  parts.title.textContent = data.image_names[image];
  const place = view.sequence.indexOf(number);
  parts.place.textContent = `${place + 1} of ${view.sequence.length}`;
  parts.previous.setAttribute('aria-disabled', place <= 0); // not disabled, which would take the focus away
  parts.next.setAttribute('aria-disabled', place >= view.sequence.length - 1);
  const found = await picture(number).catch(() => null);
  if (view.number !== number) return;
  view.found = found;
  view.layers.clear();
  if (!found) parts.stages.replaceChildren();
  parts.details.replaceChildren(element('p', {class: 'note', role: 'status', hidden: Boolean(found)}, CANNOT_BE_SHOWN), facts([
    ...runs.filter((run) => run.scores.length).map((run) => [run.name, `mean IoU ${percent(run.scores[image])}`]),
    ['Group', groups.map((group) => groupNames[group]).join(', ')],
    ...(found ? [['Size', `${found.image_width} x ${found.image_height}${found.width < found.image_width ? `, shown as ${found.width} x ${found.height}` : ''}`]] : []),
  ]));
  fillLegend(number);
  resetZoom();
}

function step(by) {
  const next = view.sequence[view.sequence.indexOf(view.number) + by];
  if (next !== undefined) goTo(next);
}

function buildViewer() {
  const button = (text, label, onclick) => element('button', {type: 'button', 'aria-label': label, title: label, onclick}, text);
  parts.title = element('h2', {id: 'viewer-title'});
  parts.place = element('output', {class: 'faded'});
  parts.previous = button('←', 'Previous image (Page Up)', () => step(-1));
  parts.next = button('→', 'Next image (Page Down)', () => step(1));
  parts.zoom = element('output', {class: 'number', id: 'zoom'});
  const head = element('div', {class: 'viewer-head'}, parts.title, parts.place, parts.previous, parts.next,
    button('−', 'Zoom out (-)', () => zoomBy(1 / 1.5)), parts.zoom, button('+', 'Zoom in (+)', () => zoomBy(1.5)),
    button('Fit', 'Whole image (0)', resetZoom), button('Close', 'Close (Escape)', () => byId('viewer').close()));
  parts.stages = element('div', {class: 'stages'});
  parts.legend = element('ul', {class: 'legend', id: 'legend'});
  parts.legendTitle = element('h3');
  parts.details = element('div');
  byId('viewer').append(element('div', {class: 'viewer'}, head,
    element('div', {class: 'viewer-main'}, parts.stages, viewerControls()),
    element('div', {class: 'viewer-side', tabindex: 0, role: 'region', 'aria-label': 'Classes in the image'}, parts.details,
      parts.legendTitle,
      element('div', {class: 'controls'}, button('All', 'Show all classes', () => showClasses(true)), button('None', 'Show no class', () => showClasses(false))),
      parts.legend)));
  byId('viewer').addEventListener('keydown', keyInViewer);
  byId('viewer').addEventListener('close', () => (view.found = null));
  new ResizeObserver(() => view.found && place()).observe(parts.stages);
}

function viewerControls() {
  const sides = [['truth', 'Truth'], ...predicted.map((i) => [i, sideName(i)])];
  const set = (key) => (value) => {
    view[key] = value === 'truth' || key === 'kind' ? value : Number(value);
    view.layers.clear();
    fillLegend(view.number);
    redraw();
  };
  view.right = sides.length > 2 ? sides[2][0] : sides[1][0];
  view.left = sides.length > 2 ? sides[1][0] : 'truth';
  const range = (label, id, value, oninput) => {
    const input = element('input', {type: 'range', min: 0, max: 100, step: 1, value, id, oninput: () => oninput(Number(input.value) / 100)});
    return [input, element('label', {}, element('span', {}, label), input)];
  };
  const [slider, sliderLabel] = range('Slider: left or right layer', 'slider', 50, (share) => {
    view.split = share;
    redraw();
  });
  parts.slider = slider;
  const [, opacityLabel] = range('Opacity of the colors', 'opacity', 60, (share) => {
    view.opacity = share;
    redraw();
  });
  const besides = element('button', {type: 'button', 'aria-pressed': 'false', id: 'side-by-side', onclick: () => {
    view.isSideBySide = !view.isSideBySide;
    besides.setAttribute('aria-pressed', view.isSideBySide);
    slider.disabled = view.isSideBySide;
    redraw();
  }}, 'Side by side');
  return element('div', {}, sliderLabel, element('div', {class: 'controls'},
    choice('Left', sides, view.left, set('left')), choice('Right', sides, view.right, set('right')),
    choice('Colors', [['classes', 'classes'], ['errors', 'errors'], ['photo', 'none']], view.kind, set('kind')), opacityLabel, besides));
}

function keyInViewer(event) {
  if (event.target.matches('select') || event.ctrlKey || event.metaKey || event.altKey) return;
  const isStage = event.target.closest('.stage');
  const actions = {'+': () => zoomBy(1.5), '=': () => zoomBy(1.5), '-': () => zoomBy(1 / 1.5), '0': resetZoom};
  if (!event.target.closest('.viewer-side')) Object.assign(actions, {PageUp: () => step(-1), PageDown: () => step(1)});
  const pans = {ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40]};
  if (isStage && pans[event.key]) actions[event.key] = () => panBy(...pans[event.key]);
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

// The classes in the picture, with their IoU in it for the right layer.
function fillLegend(number) {
  const cells = data.pictures[number].cells;
  const run = view.right !== 'truth' ? view.right : view.left !== 'truth' ? view.left : predicted[0];
  parts.legendTitle.textContent = runs.length > 1 ? `Classes, IoU of ${runs[run].name} in this image` : 'Classes, IoU in this image';
  const [labels, predictions, right] = [new Map(), new Map(), new Map()];
  const add = (map, key, pixels) => map.set(key, (map.get(key) || 0) + pixels);
  for (const [pair, pixels] of cells[run]) {
    const [label, prediction] = [Math.floor(pair / classCount), pair % classCount];
    add(labels, label, pixels);
    add(predictions, prediction, pixels);
    if (label === prediction) add(right, label, pixels);
  }
  const ids = data.classes.map((_, id) => id).filter((id) => labels.has(id) || predictions.has(id));
  const lines = ids.map((id) => {
    const union = (labels.get(id) || 0) + (predictions.get(id) || 0) - (right.get(id) || 0);
    const box = element('input', {type: 'checkbox', checked: view.shown.has(id), 'data-class': id, onchange: () => {
      view.shown[box.checked ? 'add' : 'delete'](id);
      view.layers.clear();
      redraw();
    }});
    return element('li', {}, element('label', {}, box, className(id), element('span', {class: 'number'}, percent((right.get(id) || 0) / union))));
  });
  parts.legend.replaceChildren(...lines);
}

function showClasses(are) {
  view.shown = new Set(are ? allClasses : []);
  parts.legend.querySelectorAll('input').forEach((box) => (box.checked = are));
  view.layers.clear();
  redraw();
}

function layer(side) {
  if (!view.layers.has(side)) view.layers.set(side, layerOf(view.found, idsOfSide(view.found, side), view.kind, view.shown));
  return view.layers.get(side);
}

function redraw() {
  if (!view.found) return;
  const {width, height} = view.found;
  const sides = view.isSideBySide ? [[view.left, 0, 1], [view.right, 0, 1]] : null;
  const wanted = sides ? 2 : 1;
  while (parts.stages.children.length > wanted) parts.stages.lastChild.remove();
  while (parts.stages.children.length < wanted) parts.stages.append(stage());
  [...parts.stages.children].forEach((place, i) => {
    const canvas = place.querySelector('canvas');
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, {width, height});
    const context = canvas.getContext('2d');
    context.globalAlpha = 1;
    context.drawImage(view.found.photo, 0, 0);
    context.globalAlpha = view.opacity;
    const edge = Math.round(view.split * width);
    const draws = sides ? [sides[i]] : [[view.left, 0, edge], [view.right, edge, width]];
    for (const [side, from, to] of draws) {
      const [start, size] = sides ? [0, width] : [from, to - from];
      if (size > 0) context.drawImage(layer(side), start, 0, size, height, start, 0, size, height);
    }
    context.globalAlpha = 1;
    if (!sides) {
      context.fillStyle = '#fff';
      context.fillRect(edge - 1.5 / view.zoom, 0, 3 / view.zoom, height);
      context.fillStyle = '#000';
      context.fillRect(edge - 0.5 / view.zoom, 0, 1 / view.zoom, height);
    }
    const names = sides ? [sideName(sides[i][0]), ''] : [sideName(view.left), sideName(view.right)];
    place.querySelectorAll('.side').forEach((tag, j) => {
      tag.textContent = names[j];
      tag.hidden = !names[j];
    });
    canvas.setAttribute('aria-label', sides ? names[0] : `left ${names[0]}, right ${names[1]}`);
  });
  place();
}

function stage() {
  const made = element('div', {class: 'stage', tabindex: 0, role: 'group', 'aria-label': 'Picture: + and - zoom, arrow keys move it'},
    element('canvas', {role: 'img'}), element('span', {class: 'side'}), element('span', {class: 'side'}));
  let last = null;
  made.addEventListener('pointerdown', (event) => {
    last = [event.clientX, event.clientY];
    made.setPointerCapture(event.pointerId);
  });
  made.addEventListener('pointermove', (event) => {
    if (!last) return;
    panBy(event.clientX - last[0], event.clientY - last[1]);
    last = [event.clientX, event.clientY];
  });
  for (const name of ['pointerup', 'pointercancel']) made.addEventListener(name, () => (last = null));
  made.addEventListener('wheel', (event) => {
    event.preventDefault();
    zoomBy(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }, {passive: false});
  return made;
}

function zoomBy(factor) {
  const zoom = Math.min(Math.max(view.zoom * factor, 1), MOST_ZOOM);
  view.x *= zoom / view.zoom;
  view.y *= zoom / view.zoom;
  view.zoom = zoom;
  redraw();
}

function panBy(x, y) {
  view.x += x;
  view.y += y;
  place();
}

function resetZoom() {
  Object.assign(view, {zoom: 1, x: 0, y: 0});
  redraw();
}

// Moves the pictures to their place: no farther than their edges, the same in both halves.
function place() {
  for (const made of parts.stages.children) {
    const canvas = made.querySelector('canvas');
    const fit = Math.min(made.clientWidth / canvas.width, made.clientHeight / canvas.height);
    canvas.style.width = `${canvas.width * fit}px`;
    canvas.style.height = `${canvas.height * fit}px`;
    const most = [(canvas.width * fit * (view.zoom - 1)) / 2, (canvas.height * fit * (view.zoom - 1)) / 2];
    view.x = Math.min(Math.max(view.x, -most[0]), most[0]);
    view.y = Math.min(Math.max(view.y, -most[1]), most[1]);
    canvas.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.zoom})`;
    made.classList.toggle('zoomed', view.zoom * fit > 1.5);
  }
  parts.zoom.textContent = percent(view.zoom, 0);
}
