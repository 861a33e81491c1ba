"""The report page in a headless Chromium: charts, menu, tables, search, keyboard, slider, zoom, narrow screens.

Skipped without Chromium, ChromeDriver and the package selenium.
"""

import contextlib
import shutil
import time

import pytest

from deeplab.programs import report
from tests.checks.test_html_in_browser import BROKEN_FLAGS
from tests.helpers import evaluation_setup as setup
from tests.helpers import report_setup

webdriver = pytest.importorskip('selenium.webdriver', reason='the package selenium is not installed')
pytest.importorskip('vl_convert', reason='the package vl-convert-python is not installed')
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
DRIVER = shutil.which('chromedriver')
ARGUMENTS = (
    'headless', 'no-sandbox', 'disable-gpu', 'disable-quic', 'no-first-run', 'disable-background-networking',
    'disable-component-update', 'disable-sync', 'disable-dev-shm-usage', 'window-size=1200,900',
)  # fmt: skip
READY = 'document.documentElement.dataset.ready === "true"'
# By its URL, because Chromium warns in its log of reading the pixels of a canvas twice.
IS_BLANK = """(canvas) => {
  const {width, height} = canvas;
  return canvas.toDataURL() === Object.assign(document.createElement("canvas"), {width, height}).toDataURL();
}"""
# Tops of all sections in the page, with a height that does not change either.
TOPS = """[...document.querySelectorAll("main section:not([hidden])")]
  .map((section) => section.offsetTop).concat(document.documentElement.scrollHeight)"""
CHARTS_OUTSIDE = """[...document.querySelectorAll(".chart")].filter((place) => {
  const [outer, inner] = [place, place.querySelector("svg.marks")].map((each) => each.getBoundingClientRect());
  return Math.abs(outer.height - inner.height) > 1 || inner.width > outer.width + 1;
}).length"""
WIDTHS = pytest.mark.parametrize('screen', [1400, 390], indirect=True)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason='chromium and chromedriver are not installed'),
]


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    """A browser with the page of two runs."""
    folder = tmp_path_factory.mktemp('report')
    with pytest.MonkeyPatch.context() as patch:
        setup.use_small_network(patch)
        page = report.run(report_setup.write_runs(folder)).path
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (*ARGUMENTS, f'user-data-dir={folder / "profile"}'):
        options.add_argument(f'--{argument}')
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
    with contextlib.closing(_Browser(options)) as made:
        made.address = f'file://{page}'
        made.open()
        yield made


class _Browser:
    def __init__(self, options):
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))

    def close(self):
        self.driver.quit()

    def js(self, expression):
        return self.driver.execute_script(f'return {expression}')

    def until(self, expression):
        WebDriverWait(self.driver, 30, 0.05).until(lambda _: self.js(expression), expression)

    def open(self, section=''):
        """Opens the page anew, at its beginning or at a section."""
        self.driver.get('about:blank')
        self.driver.get(self.address + section)
        self.until(READY)

    def focus(self, selector):
        self.driver.execute_script(f'document.querySelector({selector!r}).focus()')

    def keys(self, *keys):
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def middle(self, selector):
        return self.js(
            f'(({{left, width}}) => left + width / 2)(document.querySelector({selector!r}).getBoundingClientRect())'
        )

    def come_to_rest(self):
        """Waits until the page neither scrolls nor grows."""
        before, same = None, 0
        while same < 6:
            time.sleep(0.1)
            now = self.js('[scrollY, document.documentElement.scrollHeight]')
            before, same = now, same + 1 if now == before else 0

    def choose(self, place, label, text):
        """Chooses an option of a labeled select by the keys of its first letters."""
        path = f'//*[@id="{place}"]//label[span="{label}"]/select'
        self.driver.find_element(By.XPATH, path).send_keys(text)

    def picture(self):
        """The viewer's picture, as it is on the screen."""
        return self.driver.find_element(By.CSS_SELECTOR, '.stages').screenshot_as_base64

    def canvas(self, number=0):
        return self.js(f'document.querySelectorAll(".stage canvas")[{number}].toDataURL()')


@pytest.fixture
def viewer(browser):
    """The viewer, opened with the keyboard."""
    browser.focus('#gallery button')
    browser.keys(Keys.ENTER)
    browser.until('document.querySelector("dialog").open && document.querySelectorAll(".legend td").length > 0')
    browser.until('document.querySelector(".stage canvas").width < 20')
    yield browser
    browser.keys(Keys.ESCAPE)
    browser.until('!document.querySelector("dialog").open')


@pytest.fixture
def screen(browser, request):
    """The browser with a screen of some width, and the page anew."""
    size = {'width': request.param, 'height': 800, 'deviceScaleFactor': 1, 'mobile': False}
    browser.driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', size)
    browser.open()
    yield browser
    browser.driver.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})
    browser.open()


@WIDTHS
def test_the_menu_leads_to_the_sections(screen):
    for number in range(screen.js('document.querySelectorAll("nav a").length')):
        screen.open()
        link = f'document.querySelectorAll("nav a")[{number}]'
        screen.driver.execute_script(f'{link}.click()')
        screen.come_to_rest()
        top = screen.js(f'document.querySelector({link}.hash).getBoundingClientRect().top')
        is_end = screen.js('document.documentElement.scrollHeight - innerHeight - scrollY < 2')
        assert abs(top - 16) < 2 or (is_end and 0 <= top < 800), screen.js(f'{link}.textContent')


@WIDTHS
def test_nothing_moves_when_charts_and_pictures_are_drawn(screen):
    before = screen.js(TOPS)
    screen.driver.execute_script('window.print = () => (window.printed = true)')
    screen.driver.execute_script('document.getElementById("print").click()')
    screen.until('window.printed === true')
    assert screen.js(TOPS) == before
    assert screen.js(CHARTS_OUTSIDE) == 0


def test_an_address_with_a_section_opens_there(browser):
    browser.open('#confusion')
    browser.come_to_rest()
    assert abs(browser.js('document.getElementById("confusion").getBoundingClientRect().top') - 16) < 2
    browser.open()


def test_tables_fit_a_wide_screen(browser):
    sizes = browser.js('[...document.querySelectorAll(".scroll")].map((each) => [each.scrollWidth, each.clientWidth])')
    assert len(sizes) == 3 and all(needed <= given for needed, given in sizes)


@pytest.mark.parametrize('screen', [390], indirect=True)
def test_a_phone(screen):
    ends = screen.js("""[...document.querySelectorAll("#classes-table tbody td:nth-child(3)")]
      .map((cell) => cell.getBoundingClientRect().right)""")
    assert len(ends) == 4 and max(ends) <= 390  # the IoU of both runs
    tops = screen.js('[...document.querySelectorAll("#gallery li")].map((card) => card.offsetTop)')
    assert tops[0] == tops[1] < tops[2] == tops[3]
    assert screen.js('document.querySelectorAll(".flag").length') > 0
    assert screen.driver.execute_script(BROKEN_FLAGS) == []


def test_charts_are_drawn_without_a_request_or_an_error(browser):
    for section in ('curves', 'classes', 'images', 'calibration', 'differences'):
        browser.driver.execute_script(f'document.getElementById("{section}").scrollIntoView()')
        browser.until(f'document.querySelector("#{section} svg.marks path") !== null')
    names = browser.js('document.querySelector("#classes-chart svg").textContent')
    assert report_setup.CLASSES[1][:10] in names
    assert browser.js('performance.getEntriesByType("resource").length') == 0
    assert browser.driver.get_log('browser') == []


@pytest.fixture
def undrawn(browser):
    """The page anew, as if no chart and no picture ever came near the visible part: printing has everything to draw."""
    never_near = {'source': 'IntersectionObserver = class { observe() {} }'}
    script = browser.driver.execute_cdp_cmd('Page.addScriptToEvaluateOnNewDocument', never_near)
    browser.open()
    yield browser
    browser.driver.execute_cdp_cmd('Page.removeScriptToEvaluateOnNewDocument', script)
    browser.open()


def test_the_whole_page_is_printed(undrawn):
    browser = undrawn
    empty = '[...document.querySelectorAll(".chart:not(:has(svg.marks))")].length'
    browser.driver.execute_script(f'window.isBlank = {IS_BLANK}')
    blank = '[...document.querySelectorAll("#gallery canvas")].filter(isBlank).length'
    assert browser.js(empty) == browser.js('document.querySelectorAll(".chart").length') > 0
    assert browser.js(blank) == browser.js('document.querySelectorAll("#gallery canvas").length') == 5
    browser.driver.execute_script(f'window.print = () => (window.printed = [{empty}, {blank}])')
    browser.focus('#print')
    browser.keys(Keys.ENTER)
    browser.until('window.printed !== undefined')
    assert browser.js('window.printed') == [0, 0]
    browser.driver.execute_script('window.dispatchEvent(new Event("afterprint"))')
    assert not browser.js('"print" in document.documentElement.dataset')


def test_names_with_markup_show_as_text(browser):
    assert browser.js('document.querySelectorAll("img, b, i").length') == 0
    assert browser.js('document.title').endswith('two') or 'compared' in browser.js('document.title')
    table = browser.js('document.querySelector("#classes-table").textContent')
    assert all(name in table for name in report_setup.CLASSES)
    gallery = browser.js('document.querySelector("#gallery").textContent')
    assert all(name in gallery for name in report_setup.NAMES)
    assert report_setup.MARKUP in browser.js('document.querySelector("#runs").textContent')


def test_a_heading_sorts_the_table(browser):
    heads = '[...document.querySelectorAll("#classes-table tr:first-child th")].map((head) => head.textContent)'
    assert browser.js(heads) == ['Class', 'IoU', 'Accuracy (recall)', 'Precision', 'Share of labels', 'Id']
    column = '#classes-table tr:nth-child(2) th:nth-child(2)'  # IoU of the second run
    browser.focus(f'{column} button')
    shares = []
    for order in ('descending', 'ascending'):
        browser.keys(Keys.ENTER)
        assert browser.js(f'document.querySelector("{column}").getAttribute("aria-sort")') == order
        cells = browser.js('[...document.querySelectorAll("#classes-table td:nth-child(3)")].map((e) => e.textContent)')
        shares.append([float(cell.partition(' ')[0].replace('–', '-1')) for cell in cells])
    assert shares[0] == sorted(shares[0], reverse=True) and shares[1] == sorted(shares[1])
    assert len(set(shares[0])) > 1


def test_the_confusion_matrix_by_keyboard(browser):
    browser.choose('confusion', 'Run', 'two')
    browser.focus('.matrix td[tabindex="0"]')
    browser.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    label = browser.js('document.activeElement.getAttribute("aria-label")')
    assert '<b>tree predicted as road <img' in label and ' pixels' in label
    browser.keys(Keys.ENTER)
    assert browser.js('document.querySelector("#confusion-cell h3").textContent') == label
    details = browser.js('[...document.querySelectorAll("#confusion-cell .details")].map((e) => e.textContent)')
    pixels = [int(text.rpartition('· ')[2].partition(' ')[0]) for text in details]
    assert pixels and pixels == sorted(pixels, reverse=True)
    browser.choose('confusion', 'Order of the classes', 'lowest')
    rows = browser.js('[...document.querySelectorAll(".matrix tbody th")].map((e) => e.textContent)')
    assert sorted(rows) == sorted(report_setup.CLASSES) and rows != report_setup.CLASSES


def test_a_search_for_names_and_classes(browser):
    cards = '[...document.querySelectorAll("#gallery .name")].map((name) => name.textContent)'
    seen = {}
    for text in ('3</SCR', 'TREE', 'tree 3</', 'tree zebra'):
        browser.focus('#search')
        browser.keys(Keys.CONTROL + 'a', text)
        seen[text] = browser.js(cards)
    all_names = sorted(report_setup.NAMES)
    assert seen['3</SCR'] == seen['tree 3</'] == [report_setup.NAMES[3]]
    assert sorted(seen['TREE']) == all_names and seen['tree zebra'] == []
    assert browser.js('document.getElementById("images-found").textContent') == '0 images of 5.'
    browser.keys(Keys.CONTROL + 'a', Keys.BACKSPACE)
    assert sorted(browser.js(cards)) == all_names
    assert browser.js('document.getElementById("images-found").textContent') == ''


def test_the_slider_moves_between_two_layers(viewer):
    assert viewer.js('document.activeElement.id') == 'slider'
    seen = [viewer.picture()]
    for key in (Keys.HOME, Keys.END):
        viewer.keys(key)
        seen.append(viewer.picture())
    assert len(set(seen)) == 3
    assert viewer.js('document.getElementById("slider").value') == '100'
    viewer.keys(Keys.ARROW_LEFT)
    assert viewer.js('document.getElementById("slider").value') == '99'


@pytest.mark.parametrize('zoom', [0, 3])
def test_the_divider_is_dragged_with_the_slider_below_it(viewer, zoom):
    viewer.focus('.stages')
    viewer.keys(*'+' * zoom)
    divider = viewer.driver.find_element(By.CSS_SELECTOR, '.divider')
    viewer.focus('#slider')
    viewer.keys(Keys.HOME)
    places = []
    for by in (60, 90):
        ActionChains(viewer.driver).click_and_hold(divider).move_by_offset(by, 5).release().perform()
        places.append(viewer.middle('.divider'))
        thumb = """(({left, width}, thumb, value) => left + thumb / 2 + (width - thumb) * value / 100)(
          slider.getBoundingClientRect(), 20, slider.value)"""
        assert abs(viewer.js(thumb) - places[-1]) < 1
        clip = viewer.js('getComputedStyle(document.querySelectorAll(".stage")[1]).clipPath')
        left = viewer.js('document.querySelector(".stages").getBoundingClientRect().left')
        assert abs(float(clip.split()[-1].rstrip('px)')) + left - places[-1]) < 1
    assert abs(places[1] - places[0] - 90) < 2
    assert viewer.js('document.querySelector(".stage canvas").style.transform').startswith('translate(0px, 0px)')
    viewer.focus('.stages')
    viewer.keys('0')


def test_the_viewer_lists_the_iou_of_every_run(viewer):
    lines = viewer.js('[...document.querySelectorAll(".legend tr")].map((line) => line.innerText.split("\\t"))')
    assert lines[0] == ['Class', 'one', 'two']
    assert len(lines) > 1 and all(line[1] == '100.0 %' and line[2] != '100.0 %' for line in lines[1:])


def test_a_class_toggle_hides_its_color(viewer):
    viewer.keys(Keys.END)
    before = viewer.canvas()
    viewer.focus('.legend input')
    viewer.keys(Keys.SPACE)
    hidden = viewer.canvas()
    viewer.keys(Keys.SPACE)
    assert hidden != before == viewer.canvas()


def test_zoom_and_pan_by_keyboard(viewer):
    viewer.focus('.stages')
    viewer.keys('+', '+')
    assert viewer.js('document.getElementById("zoom").textContent') == '225 %'
    transform = 'document.querySelector(".stage canvas").style.transform'
    before = viewer.js(transform)
    viewer.keys(Keys.ARROW_RIGHT)
    assert 'scale(2.25)' in before and viewer.js(transform) != before
    viewer.keys('0')
    assert viewer.js(transform) == 'translate(0px, 0px) scale(1)'


def test_errors_and_both_sides(viewer):
    side_by_side = """(([left, right]) => left.getBoundingClientRect().right <= right.getBoundingClientRect().left)(
      document.querySelectorAll(".stage"))"""
    colors = viewer.canvas()
    viewer.choose('viewer', 'Colors', 'errors')
    assert viewer.canvas() != colors
    viewer.focus('#side-by-side')
    viewer.keys(Keys.ENTER)
    assert viewer.js(side_by_side)
    assert viewer.canvas(0) != viewer.canvas(1)
    viewer.keys(Keys.ENTER)
    viewer.choose('viewer', 'Colors', 'classes')
    assert not viewer.js(side_by_side)


def test_the_next_image(viewer):
    title = viewer.js('document.getElementById("viewer-title").textContent')
    viewer.keys(Keys.PAGE_DOWN)
    assert viewer.js('document.getElementById("viewer-title").textContent') != title


def test_a_narrow_dark_screen(browser):
    command = browser.driver.execute_cdp_cmd
    background = 'getComputedStyle(document.body).backgroundColor'
    assert browser.js(background) == 'rgb(255, 255, 255)'
    command('Emulation.setEmulatedMedia', {'features': [{'name': 'prefers-color-scheme', 'value': 'dark'}]})
    command(
        'Emulation.setDeviceMetricsOverride', {'width': 360, 'height': 700, 'deviceScaleFactor': 1, 'mobile': False}
    )
    assert browser.js(background) != 'rgb(255, 255, 255)'
    browser.until('document.documentElement.scrollWidth <= 360')
    assert browser.driver.get_log('browser') == []
