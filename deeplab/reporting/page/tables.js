// The table of classes, and the confusion matrix.

// Makes a table whose columns sort it. Columns: {title, value(row), text(row), isNumber, group}, where neighbors of one
// `group` have it as a common heading; `onsort` gets the rows.
function sortableTable(caption, columns, rows, onsort = () => {}) {
  const body = element('tbody');
  const heads = columns.map((column, i) =>
    element('th', {scope: 'col', class: column.isNumber ? 'number' : ''},
      element('button', {type: 'button', onclick: () => sortBy(i)}, column.title)));
  const lines = rows.map((row) => ({row, line: element('tr', {},
    ...columns.map((column) => element('td', {class: column.isNumber ? 'number' : ''}, column.text(row))))}));
  const fill = () => body.replaceChildren(...lines.map(({line}) => line));
  function sortBy(i) {
    const before = heads[i].getAttribute('aria-sort');
    const order = before ? (before === 'ascending' ? 'descending' : 'ascending') : columns[i].isNumber ? 'descending' : 'ascending';
    heads.forEach((head) => head.removeAttribute('aria-sort'));
    heads[i].setAttribute('aria-sort', order);
    const sign = order === 'ascending' ? 1 : -1;
    const value = columns[i].value;
    lines.sort((a, b) => {
      const [x, y] = [value(a.row), value(b.row)];
      if (x == null || y == null) return (x == null) - (y == null);
      return sign * (typeof x === 'string' ? x.localeCompare(y) : x - y);
    });
    fill();
    onsort(lines.map(({row}) => row));
  }
  fill();
  return element('table', {}, element('caption', {class: 'faded'}, caption), element('thead', {}, ...headLines(columns, heads)), body);
}

function headLines(columns, heads) {
  if (!columns.some(({group}) => group)) return [element('tr', {}, ...heads)];
  const upper = [];
  columns.forEach(({group}, i) => {
    heads[i].classList.toggle('run', Boolean(group));
    if (!group) {
      heads[i].rowSpan = 2;
      upper.push(heads[i]);
    } else if (group === columns[i - 1].group) {
      upper.at(-1).colSpan += 1;
    } else {
      upper.push(element('th', {scope: 'colgroup', colspan: 1, class: 'number'}, group));
    }
  });
  return [element('tr', {}, ...upper), element('tr', {}, ...heads.filter((_, i) => columns[i].group))];
}

function className(id) {
  return element('span', {}, swatch(id), data.classes[id].name);
}

function drawClasses() {
  const known = runs.filter((run) => run.classes.length);
  if (!known.length) return;
  show('classes');
  const hasIntervals = known.some((run) => run.classes.some(({iou}) => iou[1] != null));
  byId('classes-note').textContent = known.some((run) => run.scores.length) && !hasIntervals
    ? 'IoU of all pixels. A column heading sorts the table and the bars.'
    : hasIntervals
    ? 'Bars: IoU of all pixels; lines: 95 % interval of 1,000 bootstrap resamples of the images, which a class that occurs in only one image does not have. A column heading sorts the table and the bars.'
    : 'IoU of all pixels, from the newest metrics file. Without the records there are no intervals. A column heading sorts the table and the bars.';
  let ids = data.classes.map((_, id) => id);
  const redraw = addChart(byId('classes-chart'), classChartHeight(), () => classChart(ids)());
  const ofRuns = (title, value, text) => known.map((run) => ({
    ...(known.length > 1 ? {title: run.name, group: title} : {title}),
    value: (id) => value(run.classes[id]), text: (id) => text(run.classes[id]), isNumber: true,
  }));
  const columns = [
    {title: 'Class', value: (id) => data.classes[id].name, text: className},
    ...ofRuns('IoU', ({iou}) => iou[0], ({iou}) => figureCell(iou, percent)),
    ...ofRuns('Accuracy (recall)', ({recall}) => recall, ({recall}) => percent(recall)),
    ...ofRuns('Precision', ({precision}) => precision, ({precision}) => percent(precision)),
    {title: 'Share of labels', value: (id) => known[0].classes[id].share, text: (id) => percent(known[0].classes[id].share, 2), isNumber: true},
    {title: 'Id', value: (id) => id, text: String, isNumber: true},
  ];
  byId('classes-table').append(sortableTable('Classes, of all labeled pixels', columns, ids, (sorted) => {
    ids = sorted;
    redraw();
  }));
}

const matrixState = {run: 0, by: 'truth', order: 'class', most: 40, at: [0, 0], chosen: null};

function drawConfusion() {
  const known = runs.map((run, i) => [i, run.name]).filter(([i]) => runs[i].confusion);
  if (!known.length) return;
  show('confusion');
  matrixState.run = known[0][0];
  const change = (key, number = false) => (value) => {
    matrixState[key] = number ? Number(value) : value;
    matrixState.at = [0, 0];
    fillMatrix();
  };
  byId('confusion-controls').append(
    ...(known.length > 1 ? [choice('Run', known, matrixState.run, change('run', true))] : []),
    choice('Share of', [['truth', 'the true class (rows sum to 100 %)'], ['prediction', 'the predicted class (columns sum to 100 %)'], ['pixels', 'all pixels']], 'truth', change('by')),
    choice('Order of the classes', [['class', 'id'], ['pixels', 'most pixels first'], ['iou', 'lowest IoU first'], ['wrong', 'most wrong pixels first'], ['name', 'name']], 'class', change('order')),
    ...(classCount > 40 ? [choice('Classes', [[40, 'first 40 in this order'], [classCount, `all ${classCount}`]], 40, change('most', true))] : []),
  );
  fillMatrix();
}

function matrixOrder(matrix) {
  const ids = data.classes.map((_, id) => id);
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  const labels = matrix.map(sum);
  const predictions = ids.map((id) => sum(matrix.map((row) => row[id])));
  const wrong = (id) => labels[id] + predictions[id] - 2 * matrix[id][id];
  const iou = (id) => {
    const union = labels[id] + predictions[id] - matrix[id][id];
    return union ? matrix[id][id] / union : 2; // classes that do not occur come last
  };
  const orders = {
    class: (a, b) => a - b,
    pixels: (a, b) => labels[b] - labels[a],
    iou: (a, b) => iou(a) - iou(b),
    wrong: (a, b) => wrong(b) - wrong(a),
    name: (a, b) => data.classes[a].name.localeCompare(data.classes[b].name),
  };
  return {ids: ids.sort(orders[matrixState.order]).slice(0, matrixState.most), labels, predictions, total: sum(labels)};
}

function fillMatrix() {
  const matrix = runs[matrixState.run].confusion;
  const {ids, labels, predictions, total} = matrixOrder(matrix);
  const whole = {truth: (t) => labels[t], prediction: (t, p) => predictions[p], pixels: () => total}[matrixState.by];
  const head = element('tr', {}, element('td'), ...ids.map((id) => element('th', {scope: 'col', title: data.classes[id].name}, className(id))));
  const lines = ids.map((truth, row) => element('tr', {},
    element('th', {scope: 'row', title: data.classes[truth].name}, className(truth)),
    ...ids.map((prediction, column) => matrixCell(truth, prediction, row, column, matrix[truth][prediction], whole(truth, prediction)))));
  const table = element('table', {class: 'matrix', role: 'grid', 'aria-label': 'Confusion matrix', onkeydown: moveInMatrix, onclick: clickMatrix},
    element('thead', {}, head), element('tbody', {}, ...lines));
  byId('confusion-matrix').replaceChildren(table);
}

function matrixCell(truth, prediction, row, column, pixels, whole) {
  const share = whole ? pixels / whole : null;
  const label = `${data.classes[truth].name} predicted as ${data.classes[prediction].name}: ${percent(share)}, ${counted(pixels, 'pixel')}`;
  const cell = element('td', {
    role: 'gridcell', tabindex: row === matrixState.at[0] && column === matrixState.at[1] ? 0 : -1, 'aria-label': label, title: label,
    class: `${truth === prediction ? 'right' : ''} ${share > 0.8 ? 'strong' : ''}`,
    'data-truth': truth, 'data-prediction': prediction,
  }, pixels ? (100 * share).toFixed(share < 0.0995 ? 1 : 0) : '');
  cell.style.setProperty('--share', `${100 * (share || 0)}%`);
  return cell;
}

function moveInMatrix(event) {
  const cell = event.target.closest('td[role]');
  if (!cell || event.altKey || event.metaKey) return;
  const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  const lines = [...cell.closest('tbody').rows];
  const [row, column] = [lines.indexOf(cell.parentElement), cell.cellIndex - 1];
  const last = lines.length - 1;
  let next = null;
  if (moves[event.key]) next = [row + moves[event.key][0], column + moves[event.key][1]];
  if (event.key === 'Home') next = [event.ctrlKey ? 0 : row, 0];
  if (event.key === 'End') next = [event.ctrlKey ? last : row, last];
  if (event.key === 'Enter' || event.key === ' ') openCell(cell);
  else if (!next) return;
  event.preventDefault();
  if (next && next.every((place) => place >= 0 && place <= last)) focusCell(lines[next[0]].cells[next[1] + 1]);
}

function focusCell(cell) {
  cell.closest('table').querySelectorAll('td[tabindex="0"]').forEach((other) => (other.tabIndex = -1));
  cell.tabIndex = 0;
  cell.focus();
}

function clickMatrix(event) {
  const cell = event.target.closest('td[role]');
  if (!cell) return;
  focusCell(cell);
  openCell(cell);
}

// Shows the images behind a cell, those with most of its pixels first.
function openCell(cell) {
  const [truth, prediction] = [Number(cell.dataset.truth), Number(cell.dataset.prediction)];
  const pair = truth * classCount + prediction;
  const run = runs[matrixState.run];
  cell.closest('table').querySelectorAll('[aria-selected]').forEach((other) => other.removeAttribute('aria-selected'));
  cell.setAttribute('aria-selected', 'true');
  const pixelsIn = (picture) => picture.cells[matrixState.run]?.find(([found]) => found === pair)?.[1] ?? 0;
  const found = data.pictures.map((picture, number) => ({number, pixels: pixelsIn(picture)}))
    .filter(({pixels}) => pixels).sort((a, b) => b.pixels - a.pixels);
  const parts = [];
  const elsewhere = (run.examples[pair] || []).map(([image, pixels]) => `${data.image_names[image]} (${count(pixels)})`);
  if (elsewhere.length) parts.push(element('p', {class: 'faded'}, `Most such pixels of all images: ${elsewhere.join(', ')}.`));
  if (found.length) parts.push(element('ul', {class: 'gallery'}, ...found.slice(0, 24).map(({number, pixels}) => pictureCard(number, counted(pixels, 'such pixel'), () => found.map((each) => each.number)))));
  else parts.push(element('p', {class: 'faded'}, data.pictures.length ? 'None of the images on this page has such pixels.' : 'This page has no images.'));
  byId('confusion-heading').replaceChildren(element('h3', {}, cell.getAttribute('aria-label')));
  byId('confusion-images').replaceChildren(...parts);
}
