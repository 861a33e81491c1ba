// The table of a cross-validation: figures of each fold, their mean and deviation. It runs after the page is filled.

function drawFolds() {
  const {classes, figures, images} = data.folds;
  const ids = new Map(data.classes.map(({name}, id) => [name, id]));
  // What can be pooled is a fraction; figures of further tasks may be anything.
  const shown = (value, isFraction) => (value == null ? '–' : isFraction ? percent(value, 2) : value.toFixed(4));
  const columns = [
    {title: 'Mean', value: ({mean}) => mean},
    {title: 'Deviation', value: ({deviation}) => deviation},
    ...images.map((count, i) => ({title: `Fold ${i + 1}`, value: ({folds}) => folds[i]})),
    {title: 'Pooled', value: ({pooled}) => pooled},
  ].map((column) => ({...column, text: (row) => shown(column.value(row), row.pooled != null), isNumber: true}));
  const table = (caption, head, rows, text) => element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
    sortableTable(caption, [{title: head, value: ({name}) => name, text}, ...columns], rows));
  const rows = (of) => Object.entries(of).map(([name, values]) => ({name, ...values}));
  const section = element('section', {id: 'folds', 'aria-labelledby': 'folds-title'},
    element('h2', {id: 'folds-title'}, 'Folds'),
    element('p', {class: 'faded'}, `Each image is predicted by the network that was trained without its fold. Images of the folds: ${images.map(count).join(', ')}. `
      + 'Deviation: standard deviation over the folds. Pooled: of all images together, from the sum of the confusion matrices.'),
    table('Figures over the folds', 'Figure', rows(figures), ({name}) => name));
  if (Object.keys(classes).length) {
    section.append(element('h3', {}, 'IoU of each class'), table('IoU of each class over the folds', 'Class', rows(classes), ({name}) => (ids.has(name) ? className(ids.get(name)) : name)));
  }
  byId('differences').before(section);
}

drawFolds();
byId('summary').hidden = !runs.some(({miou}) => miou); // of networks without classes
byId('sections').replaceChildren();
drawSections();
