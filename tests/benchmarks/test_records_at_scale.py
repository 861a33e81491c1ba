"""A split of many records, in small: opened by its index, shuffled, resumed and divided among workers."""

from benchmarks import records_at_scale as scale
from deeplab.datasets import record_index


def test_every_task_on_a_small_split(tmp_path, monkeypatch):
    scale.write(tmp_path, 700, 9)
    folder = str(tmp_path)
    assert scale.measure('index', folder)['open'] > 0
    monkeypatch.setattr(record_index, '_walked', None)  # no shard is read for its framing from here on
    monkeypatch.setattr(scale, 'POSITIONS', 300)
    assert scale.measure('open', folder).keys() == {'open', 'megabytes'}
    assert {'permutation', 'read'} <= scale.measure('shuffle', folder).keys()
    assert {'first_check', 'second_check'} <= scale.measure('check', folder).keys()
