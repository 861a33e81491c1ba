"""Which checkpoints are compared, and the names of their folders; tests/test_eval.py has their figures."""

from deeplab.evaluation import several_checkpoints


def test_names_of_folders():
    names = several_checkpoints._folders(['a/train', 'b/train/', 'c/best', 'train_2', 'train'])
    assert names == ['train', 'train_2', 'best', 'train_2_2', 'train_3']
    assert len(set(names)) == len(names)


def test_a_single_checkpoint_is_itself(tmp_path):
    path = tmp_path / 'model.ckpt-7'
    for end in ('.index', '.data-00000-of-00001'):
        path.with_name(path.name + end).touch()
    assert several_checkpoints.find([str(path)], True) == [(str(path), '')]
    assert several_checkpoints.find([str(tmp_path)], False) == [(str(path), '')]
