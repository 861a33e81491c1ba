// The sections of tasks other than semantic, which only pages of networks with such tasks have: figures, classes, a
// curve, and pictures of the images with the worst main figure. It runs after the page is filled.

function figure(value) {
  if (value == null) return '–';
  return Number.isInteger(value) ? count(value) : value.toFixed(4);
}

const TERMS = {f: 'F-score', iou: 'IoU'};

// Names such as pq_things as text; sq_rel is a squared error, and no segmentation quality.
function figureName(name) {
  return name.replaceAll('_', ' ').replace(/\b(f|iou|ap|rmse|[psr]q(?! rel))\b/g, (word) => TERMS[word] ?? word.toUpperCase());
}

const runsOf = (task) => runs.map((_, i) => i).filter((i) => Object.keys(task.figures[i]).length);

function scrolling(table, label) {
  return element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label}, table);
}

function figuresTable(task) {
  const names = [...new Set(runsOf(task).flatMap((i) => Object.keys(task.figures[i])))];
  const columns = runsOf(task).map((i) => ({
    title: runs.length > 1 ? runs[i].name : 'All images', value: (name) => task.figures[i][name], text: (name) => figure(task.figures[i][name]), isNumber: true,
  }));
  return sortableTable('Figures of all images', [{title: 'Figure', value: (name) => name, text: figureName}, ...columns], names);
}

// A column for each figure of classes and each run; empty without such figures.
function classesTables(task) {
  const withClasses = runsOf(task).filter((i) => Object.keys(task.classes[i]).length);
  if (!withClasses.length || !classCount) return [];
  const names = Object.keys(task.classes[withClasses[0]]);
  const columns = names.flatMap((name) => withClasses.map((i) => ({
    ...(withClasses.length > 1 ? {title: runs[i].name, group: figureName(name)} : {title: figureName(name)}),
    value: (id) => task.classes[i][name]?.[id], text: (id) => figure(task.classes[i][name]?.[id]), isNumber: true,
  })));
  const ids = data.classes.map((_, id) => id).filter((id) => withClasses.some((i) => names.some((name) => task.classes[i][name]?.[id] != null)));
  const table = sortableTable('Figures of each class', [{title: 'Class', value: (id) => data.classes[id].name, text: className}, ...columns], ids);
  return [element('h3', {}, 'Classes'), scrolling(table, `Table of classes, ${task.name}`)];
}

function drawTaskCurve(task, place) {
  const rows = task.curve.flatMap((points, i) => points.map((point) => ({run: runs[i].name, ...point})));
  if (!rows.length) return;
  const chart = element('div', {class: 'chart'});
  const charts = element('div', {class: 'charts'}, chart);
  charts.style.setProperty('margin-top', '1.5rem'); // below a table
  place.append(charts);
  addChart(chart, 220 + FRAME + TITLE + legendSize().height, lineChart(rows, figureName(task.headline), {withPoints: true}));
}

function colorKey(legend) {
  const lines = legend.map(([meaning, rgb]) => {
    const made = element('span', {class: 'swatch', 'aria-hidden': 'true'});
    made.style.setProperty('--swatch', `rgb(${rgb.join(' ')})`);
    return element('li', {}, made, meaning);
  });
  const list = element('ul', {}, ...lines);
  list.style.setProperty('list-style', 'none');
  list.style.setProperty('padding', '0');
  return lines.length ? [list] : [];
}

// The card of a picture, which a click enlarges to the width of the page.
function taskPictureCard(caption, content, name) {
  const image = element('img', {src: `data:image/webp;base64,${content}`, alt: `${name}: ${caption}`});
  image.style.setProperty('width', '100%');
  const button = element('button', {type: 'button', 'aria-pressed': 'false', onclick: () => {
    const isLarge = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', isLarge);
    card.style.setProperty('grid-column', isLarge ? '1 / -1' : 'auto');
  }}, image, element('span', {class: 'details'}, caption));
  const card = element('li', {}, button);
  return card;
}

function taskImage(task, {image, picture, scores}) {
  const name = data.image_names[image];
  const shown = runsOf(task).map((i) => `${runs.length > 1 ? `${runs[i].name} ` : ''}${figureName(task.headline)} ${figure(scores[i])}`);
  const gallery = element('ul', {class: 'gallery'});
  const made = element('article', {}, element('h4', {}, `${name}: ${shown.join(', ')}`), gallery);
  const found = JSON.parse(byId(`picture-${picture}`).textContent);
  found.pictures.forEach(([caption, content]) => gallery.append(taskPictureCard(caption, content, name)));
  return {made, legend: found.legend};
}

function drawTaskImages(task, place) {
  if (!task.pictures.length) return;
  const shown = task.pictures.map((each) => taskImage(task, each));
  place.append(
    element('h3', {}, 'Images'),
    element('p', {class: 'faded'}, `${count(shown.length)} of ${counted(data.image_names.length, 'image')}, those with the worst ${figureName(task.headline)} first. Select a picture to enlarge it.`),
    ...colorKey(shown.map(({legend}) => legend).find((legend) => legend.length) || []),
    ...shown.map(({made}) => made));
}

function drawTask(task, before) {
  const title = `Task ${task.name}`;
  const section = element('section', {id: `task-${task.name}`, 'aria-labelledby': `task-${task.name}-title`},
    element('h2', {id: `task-${task.name}-title`}, title), element('p', {class: 'faded'}, task.summary));
  before.before(section);
  if (runsOf(task).length) section.append(scrolling(figuresTable(task), `Table of figures, ${task.name}`));
  section.append(...classesTables(task));
  drawTaskCurve(task, section);
  drawTaskImages(task, section);
}

// The main figure of the first task of a run is the large one on its card; mean IoU is below it, if there is one.
function headlineOf(card, i) {
  const task = data.tasks.find((each) => each.figures[i][each.headline] != null);
  if (!task) return;
  const [large, small] = [card.querySelector('.figure'), card.querySelector('.figure + .faded')];
  const meanIou = runs[i].miou ? `; ${small.textContent.replace('mean IoU', `mean IoU ${large.textContent}`)}` : '';
  small.textContent = `${figureName(task.headline)} (${task.name})${meanIou}`;
  large.textContent = figure(task.figures[i][task.headline]);
}

data.tasks.forEach((task) => drawTask(task, byId('differences')));
byId('cards').querySelectorAll('.card').forEach(headlineOf);
byId('sections').replaceChildren();
drawSections();
