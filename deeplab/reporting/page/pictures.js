// Pictures: decoding when they are needed, layers of class colors or errors, and the gallery.

const decoded = new Map(); // number -> promise of a picture, the most recently used last
const MOST_DECODED = 24;
const CANNOT_BE_SHOWN = 'This picture cannot be shown in this browser.';

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const signs = atob(text);
  const bytes = new Uint8Array(signs.length);
  for (let i = 0; i < signs.length; i++) bytes[i] = signs.charCodeAt(i);
  return bytes;
}

async function idsOf(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function decode(number) {
  const found = JSON.parse(byId(`picture-${number}`).textContent);
  const photo = await createImageBitmap(new Blob([bytesOf(found.photo)], {type: 'image/webp'}));
  const [truth, ...predictions] = await Promise.all([found.truth, ...found.predictions].map((ids) => ids && idsOf(ids)));
  return {...found, photo, truth, predictions};
}

// Returns a promise of a decoded picture; only the last few stay in memory.
function picture(number) {
  const found = decoded.get(number) || decode(number);
  found.catch(() => decoded.get(number) === found && decoded.delete(number));
  decoded.delete(number);
  decoded.set(number, found);
  if (decoded.size > MOST_DECODED) decoded.delete(decoded.keys().next().value);
  return found;
}

function canvasOf(width, height) {
  return Object.assign(document.createElement('canvas'), {width, height});
}

// Draws a layer of a picture: colors of the classes in `shown`, or the errors of a prediction. Errors are striped in
// two tones, so that they do not depend on color alone; ignored pixels are gray stripes.
function layerOf(found, ids, kind, shown) {
  const {width, height, truth} = found;
  const canvas = canvasOf(width, height);
  if (kind === 'photo') return canvas;
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer); // little-endian: alpha, blue, green, red
  const colors = data.classes.map(({color: [red, green, blue]}) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0);
  const isShown = Uint8Array.from({length: 256}, (_, id) => shown.has(id));
  const showsIgnored = kind === 'errors' || ids === truth;
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      const label = truth[i];
      const id = ids[i];
      if (showsIgnored && label === data.ignore_label) pixels[i] = ((x + y) & 7) < 4 ? 0xffa0a0a0 : 0xff606060;
      else if (kind !== 'errors') pixels[i] = isShown[id] ? colors[id] : 0;
      else if (id !== label && (isShown[label] || isShown[id])) pixels[i] = ((x + y) & 7) < 4 ? 0xff2020e0 : 0xff40b0ff;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// The class ids that a choice of layer means: 'truth', or the number of a run.
function idsOfSide(found, side) {
  return side === 'truth' ? found.truth : found.predictions[side];
}

function sideName(side) {
  return side === 'truth' ? 'Truth' : runs.length > 1 ? runs[side].name : 'Prediction';
}

const allClasses = new Set(data.classes.map((_, id) => id));

const waiting = new Map(); // canvases near the visible part of the page, with their pictures, in order
let isDrawing = false;

// Draws the waiting thumbnails one after another, when the browser is idle, so that scrolling stays smooth.
async function drawWaiting() {
  if (isDrawing) return;
  isDrawing = true;
  try {
    while (waiting.size) {
      await new Promise((resolve) => (window.requestIdleCallback || setTimeout)(resolve));
      const next = waiting.entries().next();
      if (next.done) break;
      const [canvas, number] = next.value;
      waiting.delete(canvas);
      await drawThumbnail(canvas, number).catch(() => canvas.setAttribute('aria-label', CANNOT_BE_SHOWN));
    }
  } finally {
    isDrawing = false;
  }
}

function enter(canvas, number) {
  waiting.set(canvas, number);
  drawWaiting();
}

function leave(canvas) {
  if (isPrinting()) return;
  waiting.delete(canvas);
  canvas.width = canvas.height = 1;
}

async function drawThumbnail(canvas, number) {
  const found = await picture(number);
  if (!canvas.isConnected) return;
  const width = Math.min(found.width, 360);
  const height = Math.round((found.height * width) / found.width);
  Object.assign(canvas, {width, height});
  const context = canvas.getContext('2d');
  context.drawImage(found.photo, 0, 0, width, height);
  context.globalAlpha = 0.6;
  const kind = galleryState.layer === 'errors' ? 'errors' : galleryState.layer === 'photo' ? 'photo' : 'classes';
  const side = galleryState.layer === 'truth' ? 'truth' : galleryState.run;
  context.drawImage(layerOf(found, idsOfSide(found, side), kind, allClasses), 0, 0, width, height);
}

// Draws all thumbnails, also those that are far from the visible part of the page.
async function drawAllThumbnails() {
  for (const canvas of document.querySelectorAll('[data-picture] canvas')) {
    const number = Number(canvas.closest('[data-picture]').dataset.picture);
    await drawThumbnail(canvas, number).catch(() => canvas.setAttribute('aria-label', CANNOT_BE_SHOWN));
  }
}

const predicted = runs.map((_, i) => i).filter((i) => runs[i].scores.length); // numbers of the runs with predictions
const galleryState = {group: 'all', order: 'page', layer: 'prediction', run: predicted[0], terms: [], numbers: []};
const galleryCards = new Map(); // number -> its card, as long as its colors do not change
const groupNames = {
  worst: 'worst', median: 'median', best: 'best', confusion: 'frequent confusion',
  better: 'better than the first run', worse: 'worse than the first run',
};

// Makes the card of a picture; `sequence` returns the numbers of the pictures among which it stands.
function pictureCard(number, details, sequence) {
  const {image, groups, size} = data.pictures[number];
  const canvas = element('canvas', {role: 'img', 'aria-label': `${galleryState.layer} of ${data.image_names[image]}`});
  canvas.style.setProperty('aspect-ratio', `${size[0]} / ${size[1]}`);
  const scores = runs.filter((run) => run.scores.length).map((run) => `${runs.length > 1 ? `${run.name} ` : 'mean IoU '}${percent(run.scores[image])}`);
  const card = element('li', {},
    element('button', {type: 'button', 'data-picture': number, onclick: () => openViewer(number, sequence())}, canvas,
      element('span', {class: 'name'}, data.image_names[image]),
      element('span', {class: 'details'}, [...scores, details ?? groups.join(', ')].filter(Boolean).join(' · '))));
  whenNear(card, () => enter(canvas, number), () => leave(canvas));
  return card;
}

function change(image) {
  const [first, ...others] = predicted.map((i) => runs[i].scores[image]);
  return Math.max(...others.map((score) => Math.abs(score - first)));
}

// The texts that a search looks at: the name of an image, and the names of the classes in its labels and predictions.
const searchable = data.pictures.map(({image, cells}) => {
  const ids = new Set(cells.flat().flatMap(([pair]) => [Math.floor(pair / classCount), pair % classCount]));
  return [data.image_names[image], ...[...ids].map((id) => data.classes[id].name)].map((text) => text.toLowerCase());
});

function search(text) {
  galleryState.terms = text.toLowerCase().split(/\s+/).filter(Boolean);
  fillGallery();
  const terms = galleryState.terms;
  const onPage = new Set(data.pictures.map(({image}) => image));
  const elsewhere = data.image_names.filter((name, image) => !onPage.has(image) && terms.every((term) => name.toLowerCase().includes(term)));
  const more = elsewhere.length > 3 ? ` and ${count(elsewhere.length - 3)} more` : '';
  const named = elsewhere.length ? ` Not on this page: ${elsewhere.slice(0, 3).join(', ')}${more}.` : '';
  byId('images-found').textContent = terms.length ? `${counted(galleryState.numbers.length, 'image')} of ${count(data.pictures.length)}.${named}` : '';
}

function searchField() {
  const input = element('input', {type: 'search', id: 'search', list: 'class-names', oninput: () => search(input.value)});
  const names = element('datalist', {id: 'class-names'}, ...data.classes.map(({name}) => element('option', {value: name})));
  return element('label', {}, element('span', {}, 'Search by name or class'), input, names);
}

function fillGallery() {
  const score = ({image}) => runs[galleryState.run].scores[image] ?? 2;
  const orders = {
    page: () => 0,
    worst: (a, b) => score(data.pictures[a]) - score(data.pictures[b]),
    best: (a, b) => score(data.pictures[b]) - score(data.pictures[a]),
    change: (a, b) => change(data.pictures[b].image) - change(data.pictures[a].image),
    name: (a, b) => data.image_names[data.pictures[a].image].localeCompare(data.image_names[data.pictures[b].image]),
  };
  galleryState.numbers = data.pictures.map((_, number) => number)
    .filter((number) => galleryState.group === 'all' || data.pictures[number].groups.includes(galleryState.group))
    .filter((number) => galleryState.terms.every((term) => searchable[number].some((text) => text.includes(term))))
    .sort(orders[galleryState.order]);
  byId('gallery').replaceChildren(...galleryState.numbers.map((number) => {
    if (!galleryCards.has(number)) galleryCards.set(number, pictureCard(number, null, () => galleryState.numbers));
    return galleryCards.get(number);
  }));
}

function drawImages() {
  if (!data.pictures.length) return;
  show('images');
  byId('images-note').textContent = `${count(data.pictures.length)} of ${counted(data.image_names.length, 'image')}, chosen by mean IoU (of an image, the mean over the classes in its labels or predictions). Select one to compare truth and prediction.`;
  const change = (key, number = false) => (value) => {
    galleryState[key] = number ? Number(value) : value;
    galleryCards.clear();
    fillGallery();
  };
  const groups = Object.keys(groupNames).filter((group) => data.pictures.some((each) => each.groups.includes(group)));
  byId('images-controls').append(
    searchField(),
    choice('Show', [['all', 'all'], ...groups.map((group) => [group, groupNames[group]])], 'all', change('group')),
    choice('Order', [['page', 'as chosen'], ['worst', 'worst first'], ['best', 'best first'], ...(predicted.length > 1 ? [['change', 'most changed first']] : []), ['name', 'name']], 'page', change('order')),
    choice('Colors', [['prediction', 'prediction'], ['truth', 'truth'], ['errors', 'errors'], ['photo', 'none']], 'prediction', change('layer')),
    ...(predicted.length > 1 ? [choice('Run', predicted.map((i) => [i, runs[i].name]), predicted[0], change('run', true))] : []),
  );
  drawImageScores();
  fillGallery();
}
