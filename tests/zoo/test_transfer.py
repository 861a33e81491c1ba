"""Downloads over broken connections, and from servers that lie."""

import json
import logging
import os
import urllib.request

import pytest

from deeplab.errors import DownloadError, OutputError
from deeplab.options import FetchOptions
from deeplab.zoo import transfer
from tests.helpers.web_server import Page

BODY = b'\x1f\x8b' + bytes(i * 7 % 251 for i in range(300_000))
NO_PAUSES = (0, 0)


@pytest.fixture
def got(web, tmp_path):
    """Downloads a page; returns the bytes."""
    pages, address = web

    def get(page, path='/a.tar.gz', pauses=NO_PAUSES):
        pages[path] = page
        transfer.download(f'{address}{path}', str(tmp_path / 'a.tar.gz'), pauses)
        assert os.listdir(tmp_path) == ['a.tar.gz']
        return (tmp_path / 'a.tar.gz').read_bytes()

    return get


def test_a_file(got):
    page = Page(BODY)
    assert got(page) == BODY
    assert page.requests[0]['User-Agent'].startswith('deeplab/')


def test_a_broken_connection_is_continued(got):
    page = Page(BODY, cut_after=(1000, 0, 70_000))
    assert got(page) == BODY
    assert [request.get('Range') for request in page.requests] == [
        None, 'bytes=1000-', 'bytes=1000-', 'bytes=71000-',
    ]  # fmt: skip


def test_a_server_without_ranges_sends_it_again(got):
    page = Page(BODY, takes_ranges=False, cut_after=(1000, 2000))
    assert got(page) == BODY
    assert len(page.requests) == 3


def test_without_a_validator_nothing_is_continued(got):
    page = Page(BODY, validator='', cut_after=(1000,))
    assert got(page) == BODY
    assert 'Range' not in page.requests[1]


def test_without_a_length(got):
    assert got(Page(BODY, announced='')) == BODY


def test_a_later_run_continues(got, tmp_path):
    with pytest.raises(DownloadError, match=r'1,000 of 300,002 bytes.* run the same command again'):
        got(Page(BODY, cut_after=(1000, 0)), pauses=())
    assert sorted(os.listdir(tmp_path)) == ['a.tar.gz.part', 'a.tar.gz.part.json']
    page = Page(BODY)
    assert got(page) == BODY
    assert [request.get('Range') for request in page.requests] == ['bytes=1000-']


def test_a_file_that_has_changed_is_not_mixed(got):
    with pytest.raises(DownloadError):
        got(Page(BODY[:1000] + bytes(5000), cut_after=(3000, 0)), pauses=())
    page = Page(BODY, validator='"two"')
    assert got(page) == BODY
    assert [request.get('Range') for request in page.requests] == ['bytes=3000-']


def test_a_damaged_note_means_a_new_start(got, tmp_path):
    (tmp_path / 'a.tar.gz.part').write_bytes(b'from somewhere')
    (tmp_path / 'a.tar.gz.part.json').write_text('[1')
    assert got(Page(BODY)) == BODY


@pytest.mark.parametrize('takes_ranges', [True, False])
def test_a_length_that_is_too_large(got, takes_ranges):
    page = Page(BODY, takes_ranges=takes_ranges, announced='999999')
    with pytest.raises(DownloadError, match='not received after 3 attempts'):
        got(page)
    assert len(page.requests) < 10


def test_temporary_errors(got):
    assert got(Page(BODY, status=(503, 429))) == BODY


@pytest.mark.parametrize(
    ('page', 'reason'),
    [
        (Page(status=(404,)), 'status 404'),
        (Page(status=(204,)), 'status 204 without a file'),
        (Page(b'<html>Please log in</html>', headers={'Content-Type': 'text/html'}), 'sent text/html instead'),
        (Page(status=(302,), headers={'Location': 'ftp://127.0.0.1/a'}), 'redirects to ftp.*refused'),
        (Page(status=(302,), headers={'Location': 'file:///etc/passwd'}), 'status 302 .*not allowed'),
        (Page(BODY, announced=str(3 << 30)), 'has 3,221,225,472 bytes or more; at most 2,147,483,648'),
    ],
)
def test_what_is_no_archive(got, tmp_path, page, reason):
    with pytest.raises(DownloadError, match=reason):
        got(page)
    assert os.listdir(tmp_path) == []
    assert len(page.requests) == 1  # it is not asked for again


def test_a_redirect_is_followed(got, web):
    page = Page(BODY, status=(302,), headers={'Location': f'{web[1]}/a.tar.gz?again'})
    web[0]['/a.tar.gz?again'] = Page(BODY)
    assert got(page) == BODY
    assert len(page.requests) == 1


def test_https_does_not_become_http():
    request = urllib.request.Request('https://host/a')
    with pytest.raises(DownloadError, match='redirects to http://host/a, which is refused'):
        transfer._HttpRedirects().redirect_request(request, None, 302, 'Found', {}, 'http://host/a')


def test_an_endless_file_ends(got, monkeypatch):
    monkeypatch.setattr(transfer, 'LARGEST_FILE', 100_000)
    with pytest.raises(DownloadError, match='at most 100,000 are allowed'):
        got(Page(BODY, announced=''))


def test_a_disk_that_is_too_small(got, monkeypatch):
    monkeypatch.setattr(transfer.shutil, 'disk_usage', lambda folder: type('Usage', (), {'free': 1000}))
    with pytest.raises(OutputError, match=r'has 300,002 bytes, but only 1,000 are free in'):
        got(Page(BODY))


def test_no_server(tmp_path):
    with pytest.raises(transfer.UnreachableError, match='cannot be reached'):
        transfer.download('http://127.0.0.1:1/a', str(tmp_path / 'a'))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    'address', ['host/folder', 'ftp://host/', 'file:///etc', 'https://', 'https://me:secret@host/', 'http://a b/']
)
def test_addresses_that_are_refused(address):
    with pytest.raises(DownloadError, match=r'^mirror=.* must be an address such as https'):
        transfer.mirror_of(FetchOptions(address))


def test_a_partial_file_of_another_server_is_not_continued(got, tmp_path):
    (tmp_path / 'a.tar.gz.part').write_bytes(b'12345')
    note = {'address': 'http://elsewhere/a.tar.gz', 'validator': '"one"', 'size': len(BODY)}
    (tmp_path / 'a.tar.gz.part.json').write_text(json.dumps(note))
    page = Page(BODY)
    assert got(page) == BODY
    assert 'Range' not in page.requests[0]


def test_without_a_terminal_the_log_shows_the_progress(got, caplog, monkeypatch):
    monkeypatch.setattr(transfer, '_LOG_SECS', 0)
    with caplog.at_level(logging.INFO, 'absl'):
        got(Page(BODY))
        got(Page(BODY, announced=''))
    lines = [line for line in caplog.messages if line.startswith('a.tar.gz: ')]
    assert 'a.tar.gz: 300 kB of 300 kB' in lines and 'a.tar.gz: 300 kB of -' in lines
