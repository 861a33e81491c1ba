// Charts: descriptions in Vega-Lite, drawn as SVG. `ast` makes Vega interpret expressions instead of compiling them,
// which the content security policy forbids.

const darkScheme = window.matchMedia('(prefers-color-scheme: dark)');
const runColors = {light: ['#0b5cad', '#b3470a', '#17754a', '#7a3db8', '#8a1f5c'], dark: ['#7db8f5', '#f2a65a', '#6fd3a0', '#c9a3f5', '#f590c4']};
const runDashes = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4]];
const drawn = [];
const NARROWEST = 416; // pixels of the narrowest chart with a legend, on a screen that is not narrower
const FRAME = 50; // pixels of a chart for its horizontal axis and padding
const TITLE = 25; // and for its title

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A legend has the same rows at every width of its chart, as their height is reserved before the chart is drawn.
function legendSize() {
  const width = Math.min(document.documentElement.clientWidth - 32, NARROWEST);
  const longest = Math.max(...runs.map((run) => run.name.length));
  const columns = Math.max(1, Math.floor(width / (8 * longest + 40)));
  return {columns, labelLimit: width - 90, height: runs.length > 1 ? 18 * Math.ceil(runs.length / columns) + 8 : 0};
}

function theme(width) {
  const {columns, labelLimit} = legendSize();
  const text = {labelColor: color('--ink'), titleColor: color('--ink'), labelFontSize: 12, titleFontSize: 12};
  return {
    background: null,
    font: 'system-ui, sans-serif',
    view: {stroke: null},
    axis: {...text, gridColor: color('--line'), gridOpacity: 0.6, domainColor: color('--line'), tickColor: color('--line'), titleFontWeight: 500},
    legend: {...text, orient: 'top', title: null, columns, labelLimit, symbolStrokeWidth: 2.5},
    title: {color: color('--ink'), fontSize: 13, anchor: 'start', limit: width - 10},
  };
}

const options = {
  ast: true,
  actions: false,
  renderer: 'svg',
  defaultStyle: false,
  tooltip: {disableDefaultStyle: true},
  mode: 'vega-lite',
  logLevel: 1,
};

async function draw(chart) {
  const size = {width: 'container', height: chart.height, autosize: {type: 'fit', contains: 'padding'}};
  chart.result?.finalize();
  chart.result = await window.vegaEmbed(chart.place, {...size, ...chart.spec()}, {...options, config: theme(chart.place.clientWidth)});
}

// Draws a chart when it is near; `spec` is a function, because the colors depend on the color scheme. Its height, with
// axes, title and legend, is reserved at once: if the page grew while it scrolls, it would end in another place.
function addChart(place, height, spec) {
  const chart = {place, height, spec, isDrawn: false};
  place.style.height = `${height}px`;
  drawn.push(chart);
  whenNear(place, () => {
    if (chart.isDrawn) return;
    chart.isDrawn = true;
    draw(chart);
  });
  return () => chart.isDrawn && draw(chart);
}

function redrawCharts() {
  drawn.filter((chart) => chart.isDrawn).forEach(draw);
}

darkScheme.addEventListener('change', redrawCharts);

// Draws all charts, in the present colors.
function drawAllCharts() {
  return Promise.allSettled(drawn.map((chart) => {
    chart.isDrawn = true;
    return draw(chart);
  }));
}

// Colors and dashes of the runs in some rows, the same in every chart; with more than five, their pairs differ.
function runEncoding(rows, legend = {}) {
  const numbers = runs.map((_, i) => i).filter((i) => rows.some((row) => row.run === runs[i].name));
  const domain = numbers.map((i) => runs[i].name);
  const colors = runColors[darkScheme.matches && !isPrinting() ? 'dark' : 'light'];
  const shown = runs.length > 1 ? legend : null;
  return {
    color: {field: 'run', type: 'nominal', scale: {domain, range: numbers.map((i) => colors[i % 5])}, legend: shown},
    strokeDash: {field: 'run', type: 'nominal', scale: {domain, range: numbers.map((i) => runDashes[(i + Math.floor(i / 5)) % 5])}, legend: shown},
  };
}

// A line for each run over steps; `rows` have run, step and value.
function lineChart(rows, title, {format = '.4~g', withPoints = false, scale = {zero: false}, axisTitles = true} = {}) {
  return () => {
    const shared = {
      x: {field: 'step', type: 'quantitative', title: axisTitles ? 'step' : null, axis: {tickCount: 5, format: '~s'}, scale: {nice: false}},
      y: {field: 'value', type: 'quantitative', title: null, axis: {format, tickCount: axisTitles ? 5 : 2}, scale},
      ...runEncoding(rows, axisTitles ? {symbolType: 'stroke'} : null),
    };
    const tooltip = [
      ...(runs.length > 1 ? [{field: 'run', type: 'nominal'}] : []),
      {field: 'step', type: 'quantitative', format: ','},
      {field: 'value', type: 'quantitative', format: format.endsWith('%') ? '.2%' : '.5~g', title},
    ];
    const hover = {name: 'hover', select: {type: 'point', nearest: true, on: 'pointermove', clear: 'pointerout', encodings: ['x', 'color']}};
    const {strokeDash, ...ofPoints} = shared;
    return {
      title, description: `${title} over the steps of training`, data: {values: rows},
      layer: [
        {mark: {type: 'line', strokeWidth: 2}, encoding: shared},
        {
          params: [hover],
          mark: {type: 'point', filled: true, size: 55},
          encoding: {...ofPoints, tooltip, opacity: {condition: {param: 'hover', empty: false, value: 1}, value: withPoints ? 0.9 : 0}},
        },
      ],
    };
  };
}

function drawCurves() {
  const place = byId('curves-body');
  const add = (title, rows, settings) => {
    if (!rows.length) return;
    const chart = element('div', {class: 'chart'});
    place.append(chart);
    addChart(chart, 220 + FRAME + TITLE + legendSize().height, lineChart(rows, title, settings));
  };
  const curve = (key) => runs.flatMap((run) =>
    run.points.map((point) => ({run: run.name, step: point.step, value: point[key]})).filter((row) => row.value != null));
  const evaluated = runs.flatMap((run) =>
    run.evaluations.filter((each) => each.miou != null).map((each) => ({run: run.name, step: each.step, value: each.miou})));
  add('Training loss', curve('loss'), {});
  add('Learning rate', curve('learning_rate'), {format: '.2~e'});
  add('Gradient norm', curve('gradient_norm'), {});
  add('Images per second', curve('images_per_second'), {});
  add('Mean IoU', evaluated, {format: '.1~%', withPoints: true});
  if (curve('loss').length || evaluated.length) show('curves');
  drawClassCurves();
}

function drawClassCurves() {
  if (!runs.some((run) => run.evaluations.length > 1)) return;
  byId('class-curves-title').hidden = false;
  data.classes.forEach(({name}, id) => {
    const rows = runs.flatMap((run) =>
      run.evaluations.filter((each) => each.class_iou[id] != null).map((each) => ({run: run.name, step: each.step, value: each.class_iou[id]})));
    if (!rows.length) return;
    const chart = element('div', {class: 'chart'});
    byId('class-curves').append(chart);
    addChart(chart, 90 + FRAME, lineChart(rows, name, {format: '.0%', withPoints: true, scale: {domain: [0, 1]}, axisTitles: false}));
  });
}

function classChartHeight() {
  return (22 + 10 * Math.max(runs.length - 2, 0)) * classCount + FRAME + legendSize().height;
}

// Bars of the IoU of each class with their intervals, in the order of `ids`.
function classChart(ids) {
  return () => {
    const rows = runs.flatMap((run) => ids.filter(() => run.classes.length).map((id) => {
      const [value, low, high] = run.classes[id].iou;
      return {run: run.name, id, label: `${id}`, value, low, high};
    }));
    const labels = Object.fromEntries(data.classes.map(({name}, id) => [id, name]));
    rows.forEach((row) => (row.name = labels[row.id]));
    const y = {field: 'name', type: 'nominal', sort: ids.map((id) => labels[id]), title: null, axis: {labelLimit: 140}};
    const offset = runs.length > 1 ? {yOffset: {field: 'run', sort: runs.map((run) => run.name)}} : {};
    const {color: runColor} = runEncoding(rows);
    const tooltip = [
      ...(runs.length > 1 ? [{field: 'run', type: 'nominal'}] : []),
      {field: 'name', type: 'nominal', title: 'class'},
      {field: 'value', type: 'quantitative', format: '.2%', title: 'IoU'},
      {field: 'low', type: 'quantitative', format: '.2%', title: '95 % from'},
      {field: 'high', type: 'quantitative', format: '.2%', title: 'to'},
    ];
    const x = (field) => ({field, type: 'quantitative', title: 'IoU', axis: {format: '.0%', tickCount: 10}, scale: {domain: [0, 1]}});
    return {
      description: 'IoU of each class with its interval',
      data: {values: rows},
      layer: [
        {mark: {type: 'bar', opacity: 0.75}, encoding: {y, x: x('value'), color: runColor, tooltip, ...offset}},
        {
          transform: [{filter: 'datum.low != null'}],
          mark: {type: 'rule', strokeWidth: 2, color: color('--ink')},
          encoding: {y, x: x('low'), x2: {field: 'high'}, tooltip, ...offset},
        },
      ],
    };
  };
}

function differenceChart(difference, ids) {
  return () => {
    const rows = ids.map((id) => {
      const [value, low, high] = difference.classes[id];
      return {name: data.classes[id].name, value: value && 100 * value, low: low && 100 * low, high: high && 100 * high};
    }).filter((row) => row.value != null);
    const y = {field: 'name', type: 'nominal', sort: ids.map((id) => data.classes[id].name), title: null, axis: {labelLimit: 140}};
    const x = (field) => ({field, type: 'quantitative', title: 'difference of IoU in percentage points'});
    const tooltip = [
      {field: 'name', type: 'nominal', title: 'class'},
      {field: 'value', type: 'quantitative', format: '+.2f', title: 'difference'},
      {field: 'low', type: 'quantitative', format: '+.2f', title: '95 % from'},
      {field: 'high', type: 'quantitative', format: '+.2f', title: 'to'},
    ];
    return {
      description: 'Difference of the IoU of each class with its interval', data: {values: rows},
      layer: [
        {mark: {type: 'rule', color: color('--ink')}, encoding: {x: {datum: 0}}},
        {transform: [{filter: 'datum.low != null'}], mark: {type: 'rule', strokeWidth: 3, color: color('--faded')}, encoding: {y, x: x('low'), x2: {field: 'high'}, tooltip}},
        {mark: {type: 'point', filled: true, size: 90, color: color('--accent')}, encoding: {y, x: x('value'), tooltip}},
      ],
    };
  };
}

function drawImageScores() {
  for (const run of runs) {
    const rows = run.scores.filter((score) => score != null).map((score) => ({run: run.name, score}));
    if (!rows.length) continue;
    const title = runs.length > 1 ? `${run.name}: mean IoU of each image` : 'Mean IoU of each image';
    const bin = {step: 0.05, extent: [0, 1]};
    const place = element('div', {class: 'chart'});
    byId('images-chart').append(place);
    addChart(place, 110 + FRAME + TITLE, () => ({
      title, description: `Histogram: ${title}`, data: {values: rows},
      mark: {type: 'bar', opacity: 0.75},
      encoding: {
        x: {field: 'score', bin, title: null, axis: {format: '.0%', tickCount: 10}},
        y: {aggregate: 'count', title: 'images', axis: {tickCount: 4}},
        color: {...runEncoding(rows).color, legend: null},
        tooltip: [{field: 'score', bin, format: '.0%', title: 'mean IoU'}, {aggregate: 'count', title: 'images'}],
      },
    }));
  }
}

function drawCalibration() {
  for (const run of runs.filter((each) => each.calibration)) {
    const place = element('div', {class: 'chart'});
    byId('calibration-body').append(place);
    const rows = run.calibration.bins.filter((bin) => bin.pixels);
    const title = `${run.name}: expected calibration error ${percent(run.calibration.ece, 2)}`;
    const axis = (field, text) => ({field, type: 'quantitative', title: text, axis: {format: '.0%'}, scale: {domain: [0, 1]}});
    const tooltip = [
      {field: 'confidence', type: 'quantitative', format: '.1%'},
      {field: 'accuracy', type: 'quantitative', format: '.1%'},
      {field: 'pixels', type: 'quantitative', format: ','},
    ];
    addChart(place, 280 + FRAME + TITLE, () => ({
      title, description: title, data: {values: rows},
      layer: [
        {data: {values: [{x: 0, y: 0}, {x: 1, y: 1}]}, mark: {type: 'line', strokeDash: [4, 4], color: color('--faded')}, encoding: {x: {field: 'x', type: 'quantitative'}, y: {field: 'y', type: 'quantitative'}}},
        {mark: {type: 'line', color: color('--accent')}, encoding: {x: axis('confidence', 'confidence'), y: axis('accuracy', 'accuracy')}},
        {mark: {type: 'point', filled: true, color: color('--accent'), opacity: 1}, encoding: {x: axis('confidence', 'confidence'), y: axis('accuracy', 'accuracy'), tooltip, size: {field: 'pixels', type: 'quantitative', legend: null, scale: {range: [25, 400]}}}},
      ],
    }));
    show('calibration');
  }
}
