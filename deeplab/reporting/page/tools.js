// Data of the page, elements and texts. All texts become text nodes: names with markup in them show as text.

const data = JSON.parse(document.getElementById('content').textContent);
const runs = data.runs;
const classCount = data.classes.length;

// While the page is printed, or prepared for it: in light colors, with everything drawn.
function isPrinting() {
  return 'print' in document.documentElement.dataset;
}

function byId(id) {
  return document.getElementById(id);
}

// Makes an element: element('button', {type: 'button', onclick: run}, 'Run', child, ...).
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

function show(id) {
  byId(id).hidden = false;
}

function percent(share, digits = 1) {
  return share == null ? '–' : `${(100 * share).toFixed(digits)} %`;
}

function points(share) {
  if (share == null) return '–';
  return `${share > 0 ? '+' : share < 0 ? '−' : ''}${Math.abs(100 * share).toFixed(2)}`;
}

function withInterval([value, low, high], format) {
  if (value == null) return '–';
  return low == null ? format(value) : `${format(value)} (${format(low)} to ${format(high)})`;
}

// The same for a cell of a table: the interval is in a line of its own.
function figureCell(interval, format) {
  const [value, low, high] = interval;
  if (value == null || low == null) return withInterval(interval, format);
  return element('span', {}, format(value), element('span', {class: 'interval'}, ` ${format(low).replace(' %', '')} to ${format(high)}`));
}

function count(number) {
  return number.toLocaleString('en');
}

// '1 image' or '2 images'; `noun` is in singular.
function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? '' : 's'}`;
}

function swatch(id) {
  const made = element('span', {class: 'swatch', 'aria-hidden': 'true'});
  made.style.setProperty('--swatch', `rgb(${data.classes[id].color.join(' ')})`);
  return made;
}

// Makes a labeled <select>; options are pairs of value and text.
function choice(label, options, chosen, onchange) {
  const select = element('select', {onchange: () => onchange(select.value)});
  for (const [value, text] of options) {
    const option = element('option', {value}, text);
    option.selected = String(value) === String(chosen);
    select.append(option);
  }
  return element('label', {}, element('span', {}, label), select);
}

// Text in which no line ends behind the dashes of a flag.
function prose(text) {
  return element('span', {}, ...text.split(/(?<![\w-])(--\w+(?:=\S*[^\s.,;:)])?)/).map((part, i) => (i % 2 ? element('span', {class: 'flag'}, part) : part)));
}

// A command line, in which a line ends between words as far as they fit.
function commandLine(text) {
  return element('pre', {tabindex: 0}, ...text.split(' ').flatMap((word) => [element('span', {}, word), ' ']).slice(0, -1));
}

function facts(pairs) {
  const list = element('dl');
  for (const [label, text] of pairs) list.append(element('dt', {}, label), element('dd', {}, prose(text)));
  return list;
}

// Calls `use` when an element comes near the visible part of the page, `leave` when it is far away.
function whenNear(made, use, leave = () => {}) {
  const observer = new IntersectionObserver(
    (entries) => entries.forEach((entry) => (entry.isIntersecting ? use() : leave())),
    {rootMargin: '600px'},
  );
  observer.observe(made);
}
