// The viewer of one picture: two layers with a slider between them, or side by side; class toggles, zoom, errors.

const view = {
  number: 0, sequence: [], left: 'truth', right: 0, kind: 'classes', opacity: 0.6, split: 0.5, isSideBySide: false,
  zoom: 1, x: 0, y: 0, area: [0, 1], shown: new Set(allClasses), found: null, layers: new Map(),
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
  parts.stages.hidden = !found;
  parts.details.replaceChildren(element('p', {class: 'note', role: 'status', hidden: Boolean(found)}, CANNOT_BE_SHOWN), facts([
    ...runs.filter((run) => run.scores.length).map((run) => [run.name, `mean IoU ${percent(run.scores[image])}`]),
    ['Group', groups.map((group) => groupNames[group]).join(', ')],
    ...(found ? [['Size', `${found.image_width} x ${found.image_height}${found.width < found.image_width ? `, shown as ${found.width} x ${found.height}` : ''}`]] : []),
  ]));
  fillLegend(number);
  resetZoom();
  redraw();
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
  buildStages();
  parts.legend = element('table', {class: 'legend', id: 'legend'});
  parts.details = element('div');
  const made = element('div', {class: 'viewer'}, head,
    element('div', {class: 'viewer-main'}, parts.stages, viewerControls()),
    element('div', {class: 'viewer-side', tabindex: 0, role: 'region', 'aria-label': 'Classes in the image'}, parts.details,
      element('h3', {}, 'IoU in this image'),
      element('div', {class: 'controls'}, button('All', 'Show all classes', () => showClasses(true)), button('None', 'Show no class', () => showClasses(false))),
      parts.legend));
  made.style.setProperty('--runs', predicted.length);
  byId('viewer').append(made);
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
    const input = element('input', {type: 'range', min: 0, max: 100, step: 'any', value, id, oninput: () => oninput(Number(input.value) / 100)});
    return [input, element('label', {}, element('span', {}, label), input)];
  };
  const [slider, sliderLabel] = range('Slider: left or right layer', 'slider', 50, (share) => {
    view.split = share;
    place();
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
    place();
  }}, 'Side by side');
  return element('div', {}, sliderLabel, element('div', {class: 'controls'},
    choice('Left', sides, view.left, set('left')), choice('Right', sides, view.right, set('right')),
    choice('Colors', [['classes', 'classes'], ['errors', 'errors'], ['photo', 'none']], view.kind, set('kind')), opacityLabel, besides));
}

function keyInViewer(event) {
  if (event.target.matches('select') || event.ctrlKey || event.metaKey || event.altKey) return;
  const isStage = event.target === parts.stages;
  const actions = {'+': () => zoomBy(1.5), '=': () => zoomBy(1.5), '-': () => zoomBy(1 / 1.5), '0': resetZoom};
  if (!event.target.closest('.viewer-side')) Object.assign(actions, {PageUp: () => step(-1), PageDown: () => step(1)});
  const pans = {ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40]};
  if (isStage && pans[event.key]) actions[event.key] = () => panBy(...pans[event.key]);
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

// The IoU of the classes in the labels or predictions of one run in a picture: class id -> IoU.
function iousOf(cells) {
  const [unions, right] = [new Map(), new Map()];
  const add = (map, key, pixels) => map.set(key, (map.get(key) || 0) + pixels);
  for (const [pair, pixels] of cells) {
    const [label, prediction] = [Math.floor(pair / classCount), pair % classCount];
    add(unions, label, pixels);
    if (label === prediction) add(right, label, pixels);
    else add(unions, prediction, pixels);
  }
  return new Map([...unions].map(([id, union]) => [id, (right.get(id) || 0) / union]));
}

// The classes in the picture, with their IoU in it for each run.
function fillLegend(number) {
  const ious = predicted.map((i) => iousOf(data.pictures[number].cells[i]));
  const ids = data.classes.map((_, id) => id).filter((id) => ious.some((each) => each.has(id)));
  const heads = predicted.map((i) => element('th', {scope: 'col', class: 'number'}, runs.length > 1 ? runs[i].name : 'IoU'));
  const lines = ids.map((id) => {
    const box = element('input', {type: 'checkbox', checked: view.shown.has(id), 'data-class': id, onchange: () => {
      view.shown[box.checked ? 'add' : 'delete'](id);
      view.layers.clear();
      redraw();
    }});
    return element('tr', {}, element('td', {}, element('label', {}, box, className(id))),
      ...ious.map((each) => element('td', {class: 'number'}, percent(each.get(id)))));
  });
  parts.legend.replaceChildren(element('thead', {}, element('tr', {}, element('th', {scope: 'col'}, 'Class'), ...heads)), element('tbody', {}, ...lines));
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

// Draws both layers. The slider then only moves the edge from which the right one is visible.
function redraw() {
  if (!view.found) return;
  const {width, height} = view.found;
  [view.left, view.right].forEach((side, i) => {
    const made = parts.stages.children[i];
    const canvas = made.querySelector('canvas');
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, {width, height});
    const context = canvas.getContext('2d');
    context.globalAlpha = 1;
    context.drawImage(view.found.photo, 0, 0);
    context.globalAlpha = view.opacity;
    context.drawImage(layer(side), 0, 0);
    canvas.setAttribute('aria-label', `${['left', 'right'][i]}: ${sideName(side)}`);
    made.querySelector('.side').textContent = sideName(side);
  });
  place();
}

// Calls `move` with each movement while the pointer is pressed on an element.
function whenDragged(made, move) {
  let last = null;
  made.addEventListener('pointerdown', (event) => {
    event.stopPropagation();
    last = event;
    made.setPointerCapture(event.pointerId);
  });
  made.addEventListener('pointermove', (event) => {
    if (!last) return;
    move(event, last);
    last = event;
  });
  for (const name of ['pointerup', 'pointercancel']) made.addEventListener(name, () => (last = null));
}

// Both layers, one over the other with a divider, or side by side.
function buildStages() {
  const stage = () => element('div', {class: 'stage'}, element('canvas', {role: 'img'}), element('span', {class: 'side'}));
  const divider = element('div', {class: 'divider', title: 'Drag, or use the slider below'});
  const made = element('div', {class: 'stages', tabindex: 0, role: 'group', 'aria-label': 'Picture: + and - zoom, arrow keys move it'}, stage(), stage(), divider);
  parts.stages = made;
  whenDragged(made, (event, last) => panBy(event.clientX - last.clientX, event.clientY - last.clientY));
  whenDragged(divider, (event) => {
    const [left, right] = view.area;
    view.split = Math.min(Math.max((event.clientX - made.getBoundingClientRect().left - left) / (right - left), 0), 1);
    parts.slider.value = 100 * view.split;
    place();
  });
  made.addEventListener('wheel', (event) => {
    event.preventDefault();
    zoomBy(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }, {passive: false});
}

function zoomBy(factor) {
  const zoom = Math.min(Math.max(view.zoom * factor, 1), MOST_ZOOM);
  view.x *= zoom / view.zoom;
  view.y *= zoom / view.zoom;
  view.zoom = zoom;
  place();
}

function panBy(x, y) {
  view.x += x;
  view.y += y;
  place();
}

function resetZoom() {
  Object.assign(view, {zoom: 1, x: 0, y: 0});
  place();
}

// Moves the pictures to their place, no farther than their edges, the same in both stages; and divider and slider.
function place() {
  if (!view.found) return;
  const {width, height} = view.found;
  parts.stages.classList.toggle('split', !view.isSideBySide);
  const stages = [...parts.stages.querySelectorAll('.stage')];
  const room = stages[0].clientWidth;
  const fit = Math.min(room / width, stages[0].clientHeight / height);
  const most = [(width * fit * (view.zoom - 1)) / 2, (height * fit * (view.zoom - 1)) / 2];
  view.x = Math.min(Math.max(view.x, -most[0]), most[0]);
  view.y = Math.min(Math.max(view.y, -most[1]), most[1]);
  for (const made of stages) {
    const canvas = made.querySelector('canvas');
    canvas.style.width = `${width * fit}px`;
    canvas.style.height = `${height * fit}px`;
    canvas.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.zoom})`;
    made.classList.toggle('zoomed', view.zoom * fit > 1.5);
  }
  const [middle, half] = [room / 2 + view.x, (width * fit * view.zoom) / 2];
  view.area = [Math.max(middle - half, 0), Math.min(middle + half, room)]; // where the slider goes: the visible picture
  const [left, right] = view.area;
  byId('viewer').style.setProperty('--left', `${left}px`);
  byId('viewer').style.setProperty('--right', `${right}px`);
  byId('viewer').style.setProperty('--divider', `${left + view.split * (right - left)}px`);
  parts.zoom.textContent = percent(view.zoom, 0);
}
