"""The augmentations: a module registers one or two (`deeplab.registry.Augmentation`) and is found without being listed.

An image is [h, w, channels], a label [h, w, 1] or None; a change that moves or hides pixels does so in both. Random
values are drawn from a `seed` that is passed in, as in `preprocess_utils`.
Importing the modules does not import TensorFlow (`core.lazy`).

Random scaling and the plain random crop are no augmentations of the registry: every training has them
(`input_preprocess.py`), and their parameters are fields of `AugmentOptions`.

The `seed_number` of a record must not change, because two runs with one seed are the same in all versions. A new
augmentation needs none.
"""
