// Fills the page.

function drawSummary() {
  show('summary');
  byId('cards').append(...runs.map((run) => element('article', {class: 'card'},
    element('h3', {}, run.name),
    element('div', {class: 'figure'}, run.miou ? percent(run.miou[0], 2) : '–'),
    element('div', {class: 'faded'}, run.miou?.[1] == null ? 'mean IoU' : `mean IoU, 95 % interval ${percent(run.miou[1], 2)} to ${percent(run.miou[2], 2)}`),
    facts([...run.figures, ...run.settings]),
    ...(run.notes.length ? [element('ul', {class: 'notes'}, ...run.notes.map((text) => element('li', {}, prose(text))))] : []))));
}

function drawDifferences() {
  if (!data.differences.length) return;
  show('differences');
  for (const difference of data.differences) {
    const place = element('div', {class: 'chart'});
    const ids = data.classes.map((_, id) => id);
    let order = ids;
    const compared = difference.classes.filter(([value]) => value != null).length;
    const redraw = addChart(place, 22 * compared + FRAME, () => differenceChart(difference, order)());
    const isClear = ([, low, high]) => low != null && (low > 0 || high < 0);
    const value = (id) => difference.classes[id][0];
    const table = sortableTable('Differences of IoU in percentage points', [
      {title: 'Class', value: (id) => data.classes[id].name, text: className},
      {title: 'Difference, 95 % interval', value, text: (id) => figureCell(difference.classes[id], points), isNumber: true},
      {title: 'Beyond chance', value: (id) => Number(isClear(difference.classes[id])), text: (id) => (isClear(difference.classes[id]) ? (value(id) > 0 ? 'better' : 'worse') : '–')},
    ], ids, (sorted) => {
      order = sorted;
      redraw();
    });
    byId('differences-body').append(
      element('h3', {}, `${runs[difference.run].name} compared with ${runs[difference.first].name}`),
      element('p', {}, `Mean IoU ${withInterval(difference.miou, points)} percentage points. `
        + `${counted(difference.better, 'image')} ${difference.better === 1 ? 'is' : 'are'} better, ${count(difference.worse)} worse, ${count(difference.equal)} equal.`),
      place, element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table of differences'}, table));
  }
}

function drawRuns() {
  show('runs');
  byId('runs-body').append(...runs.map((run) => element('article', {},
    element('h3', {}, run.name),
    facts(run.facts),
    ...(run.repeat ? [element('p', {class: 'faded'}, 'To repeat this training:'), commandLine(run.repeat)] : []))));
  byId('runs-body').append(element('p', {class: 'faded'}, 'This page was made with:'), commandLine(data.command));
}

function drawSections() {
  for (const section of document.querySelectorAll('main section:not([hidden])')) {
    byId('sections').append(element('li', {}, element('a', {href: `#${section.id}`}, section.querySelector('h2').textContent)));
  }
}

// Prints the whole page: what was not scrolled to is not drawn yet, and a browser does not wait for it.
async function printPage() {
  const button = byId('print');
  if (button.getAttribute('aria-disabled') === 'true') return;
  button.setAttribute('aria-disabled', true);
  document.documentElement.dataset.print = '';
  try {
    await drawAllCharts();
    await drawAllThumbnails();
    window.print();
  } finally {
    button.setAttribute('aria-disabled', false);
  }
}

function endPrinting() {
  if (!isPrinting()) return;
  delete document.documentElement.dataset.print;
  if (darkScheme.matches) redrawCharts();
}

function addPrinting() {
  byId('made').after(element('p', {class: 'controls'}, element('button', {type: 'button', id: 'print', onclick: printPage}, 'Print')));
  window.addEventListener('afterprint', endPrinting);
  document.addEventListener('keydown', (event) => {
    const isPrint = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === 'p';
    if (!isPrint || byId('viewer').open) return;
    event.preventDefault();
    printPage();
  });
}

byId('title').textContent = data.title;
addPrinting();
byId('made').textContent = data.made;
drawSummary();
drawDifferences();
drawCurves();
drawClasses();
drawConfusion();
drawImages();
drawCalibration();
drawRuns();
drawSections();
document.documentElement.dataset.ready = 'true';
