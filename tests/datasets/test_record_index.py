import gzip
import os
import struct
import threading

import numpy as np
import pytest

from deeplab.datasets import record_index, tfrecord
from deeplab.errors import DataError
from tests.helpers import dataset_files

CONTENTS = [b'first', b'', b'third record' * 40]


def starts(contents):
    """Where each record's header begins, and the end of the file."""
    return np.cumsum([0] + [len(content) + 16 for content in contents])


def test_index_finds_and_reads_every_record(tmp_path):
    shards = dataset_files.write_split(tmp_path, 'val', [CONTENTS, [], [b'last']])
    index = record_index.RecordIndex(shards)
    assert [index.read(record) for record in range(len(index))] == [*CONTENTS, b'last']
    assert index.shard.tolist() == [0, 0, 0, 2]
    assert index.offset.tolist() == [*(starts(CONTENTS)[:3] + 12), 12]
    assert index.length.tolist() == [5, 0, 480, 4]
    assert index.name_of(1) == 'val-00000-of-00003.tfrecord, record 1'
    assert index.name_of(3) == 'val-00002-of-00003.tfrecord, record 0'


def test_framing_is_tensorflows(tmp_path):
    tf = pytest.importorskip('tensorflow')
    ours = dataset_files.write_shard(tmp_path / 'ours', CONTENTS)
    assert [content.numpy() for content in tf.data.TFRecordDataset(ours, buffer_size=1000)] == CONTENTS
    with tf.io.TFRecordWriter(str(tmp_path / 'theirs')) as writer:
        for content in CONTENTS:
            writer.write(content)
    assert (tmp_path / 'theirs').read_bytes() == (tmp_path / 'ours').read_bytes()


def test_a_cut_anywhere_is_found(tmp_path):
    path = tmp_path / 'val-00000-of-00001.tfrecord'
    dataset_files.write_shard(path, CONTENTS)
    borders = starts(CONTENTS)
    for cut in reversed(range(1, borders[-1])):
        os.truncate(path, cut)
        whole = int(np.searchsorted(borders, cut, side='right')) - 1
        if cut in borders:  # what is left is a whole file
            assert len(record_index.RecordIndex([str(path)])) == whole
            continue
        with pytest.raises(DataError, match=f'val-00000-of-00001.tfrecord, record {whole}: the file ends '):
            record_index.RecordIndex([str(path)])
        index = record_index.RecordIndex([str(path)], skip_corrupt=True)
        assert [index.read(record) for record in range(len(index))] == CONTENTS[:whole]
        assert len(index.damaged) == 1


def test_messages_of_cuts(tmp_path):
    path = str(tmp_path / 'a.tfrecord')
    for cut, reason in (
        (21 + 7, 'ends after 7 of the 12 bytes of the header'),
        (20, 'ends 1 bytes before the end of the record'),
    ):
        dataset_files.write_shard(tmp_path / 'a.tfrecord', CONTENTS)
        os.truncate(path, cut)
        wanted = f'^Cannot read {path}, record {int(cut > 21)}: the file {reason}.* skip_corrupt_records=True.$'
        with pytest.raises(DataError, match=wanted):
            record_index.RecordIndex([path])


def test_after_a_damaged_shard_the_others_are_read(tmp_path):
    shards = dataset_files.write_split(tmp_path, 'val', [CONTENTS, [b'last']])
    os.truncate(shards[0], 25)
    index = record_index.RecordIndex(shards, skip_corrupt=True)
    assert [index.read(record) for record in range(len(index))] == [b'first', b'last']
    assert index.name_of(1) == 'val-00001-of-00002.tfrecord, record 0'
    assert index.damaged == (f'{shards[0]}, record 1: the file ends after 4 of the 12 bytes of the header',)


def test_damaged_length(tmp_path):
    path = tmp_path / 'a.tfrecord'
    dataset_files.write_shard(path, CONTENTS)
    content = bytearray(path.read_bytes())
    content[21] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match='record 1: the checksum of the header does not match'):
        record_index.RecordIndex([str(path)])


def test_damaged_data_is_found_when_read(tmp_path):
    path = tmp_path / 'a.tfrecord'
    dataset_files.write_shard(path, CONTENTS)
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    index = record_index.RecordIndex([str(path)])
    assert index.read(0) == b'first'
    with pytest.raises(DataError, match='^Cannot read a.tfrecord, record 2: its checksum does not match its data.'):
        index.read(2)


def test_files_that_are_no_records(tmp_path):
    packed = tmp_path / 'a.gz'
    packed.write_bytes(gzip.compress(tfrecord.framed(b'x')))
    with pytest.raises(DataError, match='compressed with gzip; unpack it'):
        record_index.RecordIndex([str(packed)])
    with pytest.raises(DataError, match='none.tfrecord: No such file or directory'):
        record_index.RecordIndex([str(tmp_path / 'none.tfrecord')])


def test_a_file_that_shrinks_or_goes_while_it_is_used(tmp_path):
    path = dataset_files.write_shard(tmp_path / 'a.tfrecord', CONTENTS)
    index = record_index.RecordIndex([path])
    os.truncate(path, 30)
    with pytest.raises(DataError, match='^Cannot read a.tfrecord, record 2: the file has been truncated'):
        index.read(2)
    os.remove(path)
    index.close()
    with pytest.raises(DataError, match='^Cannot read a.tfrecord, record 0: No such file or directory.$'):
        index.read(0)


def test_threads_read_more_shards_than_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr(record_index, 'MAX_OPEN_FILES', 3)
    shards = dataset_files.write_split(tmp_path, 'val', [[struct.pack('<I', number)] for number in range(20)])
    index = record_index.RecordIndex(shards)
    wrong = []

    def read_all():
        wrong.extend(n for n in [*range(20)] * 20 if index.read(n) != struct.pack('<I', n))

    threads = [threading.Thread(target=read_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(index._files) == 3
    index.close()
    assert index.read(7) == struct.pack('<I', 7)


def test_no_shards_give_an_empty_index():
    assert len(record_index.RecordIndex([])) == 0
