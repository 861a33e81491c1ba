"""Rules about data sets, shared by `deeplab doctor` and the check before the first step.

Each entry has what a rule finds, why and how bad it is, an example, the fix, and what a repaired copy does about it.
"""

from __future__ import annotations

import dataclasses

from deeplab.datasets import planes

HARMFUL = 'error'  # training fails, learns something else than the labels, or metrics are wrong
WARNING = 'warning'  # results are probably worse than they could be
NOTE = 'note'  # usually intended
SEVERITIES = (HARMFUL, WARNING, NOTE)
LEFT_OUT = 'leaves these images out'
_DESCRIPTION = 'the description of the data set'


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
      name: its short name in files, which other programs read.
      title: heading of its findings.
      severity: severity of its findings, one of `SEVERITIES`; the most severe if it depends.
      what: the problem: a verb in plural behind "3 of 40 images" for a rule about samples; else a phrase.
      example: a way in which data comes to break it.
      fix: instruction without a full stop; '' where each finding has its own.
      repair: change in a repaired copy; '' if none.
      builds_again: whether the fix changes files, from which records are then built again.
      solved_by_builders: whether builders of records deal with it, so that it is a finding in records only.
    """

    name: str
    title: str
    severity: str
    what: str
    example: str
    fix: str = ''
    repair: str = ''
    builds_again: bool = True
    solved_by_builders: bool = False

    def fix_text(self, in_records: bool, **values: object) -> str:
        """Returns the fix as a sentence; `values` are inserted at the places in it."""
        text = self.fix.format(**{'description': _DESCRIPTION, **values})
        return f'{text}, then build the records again.' if in_records and self.builds_again else f'{text}.'


_RULES = (
    # Files.
    Rule(
        'shards',
        'Missing shards',
        HARMFUL,
        'the shards of a split are not complete',
        'a copy was interrupted: val-00000-of-00002.tfrecord is there, val-00001-of-00002.tfrecord is not',
        'Copy or build them again',
        builds_again=False,
    ),
    Rule(
        'corrupt',
        'Images that cannot be read',
        HARMFUL,
        'cannot be read or decoded',
        'a download stopped early, a file is empty, or a text file is named a.jpg',
        'Copy or save these files again; to train without them, set {skip}',
        LEFT_OUT,
        builds_again=False,
    ),
    Rule(
        'empty',
        'Splits without a readable image',
        HARMFUL,
        'a split without an image that can be read',
        'a list of names without files',
        'Build it again, or remove it',
        'leaves the split out',
        builds_again=False,
    ),
    Rule(
        'no_image',
        'Names without an image',
        HARMFUL,
        'are listed without an image',
        'train.txt names 0012, and there is no images/0012.jpg',
        'Add the images, or remove the names from the list; if a name occurs in several folders, write the folder, too',
        'leaves these names out',
    ),
    Rule(
        'no_mask',
        'Images without a mask',
        HARMFUL,
        'have no mask',
        'images/0012.jpg without masks/0012.png',
        'Add masks with the names of the images (without masks, a split can be visualized without error maps, but '
        'neither trained on nor evaluated)',
        LEFT_OUT,
    ),
    Rule(
        'misnamed',
        'Masks with other names than their images',
        HARMFUL,
        'have a mask with the name of the image, but for letters in another case or a common ending',
        'images/IMG_1.jpg with masks/img_1_mask.png',
        'Rename the masks; if all their names have the same ending, pass it as {suffix}, also to build_folder_data',
        'gives the masks the names of their images',
    ),
    Rule(
        'image_format',
        'Images in an unsupported format',
        HARMFUL,
        'have a format other than JPEG, PNG and .npy',
        'images/0012.tif',
        'Save the images as PNG',
        'converts them to PNG',
    ),
    Rule(
        'mask_format',
        'Masks in an unsupported format',
        HARMFUL,
        'have a mask in a format other than PNG',
        'masks/0012.bmp',
        'Save the masks as PNG',
        'converts the masks to PNG',
    ),
    Rule(
        'jpeg_mask',
        'Masks saved as JPEG',
        HARMFUL,
        'have a mask as JPEG, which changes ids at every edge',
        'masks/0012.jpg, exported with the default settings of an image editor',
        'Export the masks as PNG from where they were drawn; converting the JPEG does not restore the ids',
        LEFT_OUT,
    ),
    Rule(
        'same_name',
        'Two images of one name',
        HARMFUL,
        'have the name of another image apart from the extension, which build_folder_data refuses',
        'images/0012.jpg beside images/0012.png',
        'Remove or rename one of them',
        'copies one of them: the JPEG, if there is one',
    ),
    Rule(
        'unused_masks',
        'Masks without an image',
        NOTE,
        'masks without an image',
        'masks/0012.png after images/0012.jpg was removed',
        'No change is needed, unless images were lost',
        'leaves these masks out',
    ),
    Rule(
        'unlisted',
        'Images outside all splits',
        NOTE,
        'images with masks in no list, or in no folder of a split',
        'images/0012.jpg with masks/0012.png, and 0012 neither in train.txt nor in val.txt',
        'Add the names to a list to use these images, or move the files to the folders of a split',
    ),
    Rule(
        'left_out',
        'Files that are left out',
        NOTE,
        'files without a partner that a description leaves out (allow_unmatched), and names that a list repeats',
        'images/0012.jpg without masks/0012.png, and "allow_unmatched": true',
        'No change is needed, unless files were lost',
    ),
    Rule(
        'other_texts',
        'Texts that are not lists of names',
        NOTE,
        'texts beside the lists of names that are not such lists',
        'lists/classes.txt',
        'No change is needed, unless it is a list: then its lines must be the names of images with masks',
    ),
    # Kinds, sizes and orientations of images and masks.
    Rule(
        'color_mask',
        'Masks in color',
        HARMFUL,
        'have a mask in color (RGB) instead of one channel of class ids',
        'the export of a labeling tool that shows class 1 as (128, 0, 0)',
        'Map each color to its id, for example by --colors of deeplab build_folder_data, and save the masks as PNG of '
        'one channel; if its channels are equal, keep one of them',
        'maps colors to ids by --colors or by the palette of --dataset; keeps one of equal channels',
    ),
    Rule(
        'palette',
        'Masks with a palette',
        HARMFUL,
        'have a mask with a palette: its colors would be read as gray levels',
        'masks of PASCAL VOC in records that another program has written',
        'Build the records again with deeplab build_voc2012_data or build_folder_data, which take the indices as ids, '
        'or run deeplab remove_gt_colormap on the masks first',
        'takes the indices as ids',
        builds_again=False,
        solved_by_builders=True,
    ),
    Rule(
        'sixteen_bit_mask',
        'Masks of 16 bits',
        HARMFUL,
        'have a mask of 16 bits',
        'ids written as np.uint16',
        'Save the masks with 8 bits',
        'saves them with 8 bits',
        solved_by_builders=True,
    ),
    Rule(
        'large_ids',
        'Mask ids above 255',
        HARMFUL,
        'have a mask of 16 bits with ids above 255',
        'masks of instances, such as 1000 * class + instance',
        'Write class ids, 0, 1, 2, ..., instead',
        LEFT_OUT,
    ),
    Rule(
        'size',
        'Masks of another size than their images',
        HARMFUL,
        'have a mask of another size than the image',
        'an image of 1024 x 2048 with a mask of 512 x 1024',
        'Resize the masks by nearest neighbor, or find the right pairs',
        'resizes masks of the same shape by nearest neighbor; leaves other images out',
    ),
    Rule(
        'turned',
        'Images or masks stored rotated',
        HARMFUL,
        'have an EXIF orientation, and a mask that fits only if one of them is rotated',
        'a photo of 3000 x 4000 with orientation 6 and a mask of 4000 x 3000, drawn in a viewer',
        'Build the records again with deeplab build_voc2012_data or build_folder_data, which turn such images and '
        'masks upright',
        'rotates them, so that both are upright',
        builds_again=False,
        solved_by_builders=True,
    ),
    Rule(
        'oriented',
        'Images with an EXIF orientation',
        WARNING,
        'have an EXIF orientation that the mask does not share; their sizes do not show whether the mask was drawn '
        'on the stored or on the displayed pixels',
        'a photo taken upside down (orientation 3)',
        'Look at them with deeplab preview; if masks are rotated against images, save these images upright',
        'rotates them where the edges in the image show which is right',
    ),
    Rule(
        'image_channels',
        'Unexpected number of channels',
        HARMFUL,
        'have channels other than the {channels} of the data set',
        'an RGB image in a data set of 4 channels',
        'Set image_channels in {description}, or convert these images',
    ),
    Rule(
        'image_bits',
        'Images with more bits than the data set',
        HARMFUL,
        'have 16 bits, but the data set has 8',
        'an array of uint16 with a description that has no image_bits',
        'Set "image_bits": 16 in {description}',
        builds_again=False,
    ),
    Rule(
        'array',
        'Images stored as arrays',
        HARMFUL,
        'have an image stored as a NumPy array, which PNG could hold',
        'records of RGB arrays (.npy) that another program has written',
        'Build the records again: the builders convert such arrays to PNG files',
        builds_again=False,
        solved_by_builders=True,
    ),
    Rule(
        'cmyk',
        'CMYK images',
        WARNING,
        'are CMYK; read as RGB, their colors differ',
        'a JPEG made for print',
        'Convert them to RGB',
        'converts them to RGB, as PNG',
    ),
    Rule(
        'blank',
        'Images of one color',
        WARNING,
        'show one color, although the mask has several classes',
        'a black frame at the start of a video',
        'Remove them, or find the right images',
        LEFT_OUT,
    ),
    Rule(
        'sixteen_bits',
        'Images of 16 bits, read as 8',
        NOTE,
        'have 16 bits, of which the 8 lower ones are lost',
        'a PNG of a microscope',
        'To keep them, set "image_bits": 16 in the description of the data set',
        builds_again=False,
    ),
    Rule(
        'alpha',
        'Images with an alpha channel',
        NOTE,
        'have an alpha channel, which is dropped',
        'a screenshot, saved as PNG',
        'No change is needed',
        builds_again=False,
    ),
    Rule(
        'gray',
        'Gray images',
        NOTE,
        'are gray, which is read as RGB with equal channels',
        'X-ray images',
        'If all images are gray, set "image_channels": 1 in the description of the data set',
        builds_again=False,
    ),
    # Labels.
    Rule(
        'ids',
        'Mask ids that are not classes',
        HARMFUL,
        'have a mask with ids that are neither among the {num_classes} classes (0 to {last}) nor ignore_label {ignore}',
        'the id 7 in a data set of 3 classes; ids that begin with 1; a gray level for each class',
        'Fix the masks, or set num_classes or ignore_label',
        'writes class ids where all masks begin with 1 or hold a gray level for each class; ignores other ids with '
        '--ignore_other_ids',
    ),
    Rule(
        'zero_and_255',
        'Masks of 0 and 255',
        HARMFUL,
        'masks of 0 and 255 alone, where 255 is ignored',
        'a black and white mask: the object is 255',
        'Write 1 for the object (mask // 255)',
        'writes 1 for the object',
    ),
    Rule(
        'interpolated',
        'Interpolated or anti-aliased masks',
        HARMFUL,
        'ids that occur almost only between two other ids: smooth (anti-aliased) edges, or interpolation',
        'masks drawn with a soft brush, or resized with the default of an image library',
        'Export the masks without anti-aliasing, and resize them by nearest neighbor',
        'ignores the pixels between',
    ),
    Rule(
        'histogram',
        'Too few labels or classes in a split',
        HARMFUL,
        'a split in which every pixel or most of them are ignored, or only one class occurs',
        'background has the ignore label, and only one class is drawn',
    ),
    Rule(
        'one_class',
        'Only one class',
        HARMFUL,
        'a data set of one class',
        'num_classes: 1 for one kind of objects, without background',
    ),
    Rule(
        'only_evaluated',
        'Classes missing from training',
        HARMFUL,
        'classes in the split to evaluate on that the split to train on does not have',
        'the only images of a bus are in val',
    ),
    Rule(
        'missing_classes',
        'Classes without pixels',
        WARNING,
        'classes without a pixel in the split to train on',
        'a list of 21 names for masks of 4 classes',
    ),
    Rule(
        'ignored_class',
        'Ignore label that is a class',
        WARNING,
        'an ignore label that is the id of a class',
        'ignore_label: 0 with a class background',
    ),
    Rule(
        'all_ignored',
        'Masks that are ignored entirely',
        WARNING,
        'have a mask in which every pixel is ignored',
        'images that nobody has labeled yet',
        'Label these images, or leave them out',
        LEFT_OUT,
    ),
    Rule(
        'nothing_ignored',
        'No ignored pixels',
        NOTE,
        'a split without a pixel of the ignore label',
        'every pixel has a class',
    ),
    Rule(
        'uneven',
        'Rare or dominant classes',
        NOTE,
        'classes below 1% of the pixels, or one above 95%',
        'road 96%, sign 0.1%',
    ),
    Rule(
        'thin',
        'Classes of thin parts',
        NOTE,
        'classes with 90% of their pixels in parts narrower than the output stride',
        'poles and cables of 4 pixels',
    ),
    # Classes of whole images.
    Rule(
        'class_ids',
        'Class ids that are no classes',
        HARMFUL,
        'have no class, or a class id that is not among the classes, in a data set for image classification',
        'the id 5 in a data set of 5 classes; ids that begin with 1',
        'Correct the classes of these images, or set num_classes in {description}',
    ),
    Rule(
        'class_names',
        'Class names of another number',
        HARMFUL,
        'a file labels.txt with more or fewer names than the data set has classes',
        'labels.txt of another data set',
        'Correct labels.txt, or set num_classes and class_names in {description}',
        builds_again=False,
    ),
    Rule(
        'contradictory',
        'Contradictory classes of one image',
        WARNING,
        'have another class than an equal image, or than an image that looks almost the same',
        'a photo in two folders of classes',
        'Look at them, and correct or remove one of the two',
    ),
    Rule(
        'contradicted',
        'Classes that a classifier contradicts',
        WARNING,
        'have a class that the classifier of --checkpoint_dir contradicts with a probability of 0.9 or more',
        'a dog in the folder of cats',
        'Look at them, the most probable ones first, and correct their classes',
    ),
    Rule(
        'absent_classes',
        'Classes without images',
        WARNING,
        'classes of whole images without an image in a split; a note if it is neither trained on nor evaluated',
        'a class of three images, none of them in val',
        'Add images, or divide the images of each class among the splits; remove classes that have no image',
    ),
    Rule(
        'few_images',
        'Classes of few images',
        WARNING,
        'classes of whole images with less than 20 of them in the split to train on',
        'a folder of 3 photos among folders of hundreds',
        'Add images of these classes, merge classes, or weight them with --label_weights as in the table',
        builds_again=False,
    ),
    # Planes and instances.
    Rule(
        'no_plane',
        'Images without a plane',
        HARMFUL,
        'have no plane that the task needs',
        'records that were built without --instances, or an instance mask that is missing in its folder',
        planes.FIX,
        builds_again=False,
    ),
    Rule(
        'bad_plane',
        'Planes that cannot be used',
        HARMFUL,
        'have a plane that is broken or does not fit the image',
        'an instance mask of another size than its image',
        'Fix the files of these planes',
        LEFT_OUT,
    ),
    Rule(
        'classless_instance',
        'Instances without a class',
        HARMFUL,
        'have an instance of which every pixel is ignored',
        'an object that is in the instance mask, but not in the class mask',
        'Give these instances a class in the class mask, or remove them from the instance mask',
        'removes these instances',
    ),
    Rule(
        'large_instance_ids',
        'Instance ids above the divisor',
        HARMFUL,
        'have instance ids that label_divisor does not allow',
        'the instance 1200 in a data set with "label_divisor": 1000',
        'Number the instances of each image from 1 on, or set a larger label_divisor in {description}',
    ),
    Rule(
        'far_parts',
        'Instances in parts that lie apart',
        WARNING,
        'have an instance with a part that is farther from its other parts than they are long',
        'two cars at the sides of a street with the same instance id',
        'Look at them, and give each object an instance id of its own',
    ),
    Rule(
        'unnumbered',
        'Things without instances',
        WARNING,
        'classes of things of which a third of the pixels, or more, have no instance',
        'an instance mask with ids for cars alone, where people are things, too',
        'Give each object an instance id; leave 0 to crowds, which are excluded from the losses of instances. If the '
        'objects of a class are not counted, remove it from things in {description}',
    ),
    Rule(
        'lone_instances',
        'One instance in each image',
        WARNING,
        'classes of things with exactly one instance in each of at least five images; a note if it has one part',
        'a class mask that was saved as the instance mask',
        'Give each object an instance id of its own; if there is one object in each image, no change is needed',
    ),
    Rule(
        'small_instances',
        'Tiny instances',
        NOTE,
        'have instances of less than 16 pixels, one pixel of the outputs, whose stride is 4',
        'a pedestrian of 3 x 5 pixels, or a speck that a brush has left',
        'Remove specks; for small objects, train on larger images',
    ),
    # Agreement of images and masks.
    Rule(
        'shifted',
        'Shifted masks',
        HARMFUL,
        'masks that lie beside the edges in their images, all by the same distance',
        'images cropped by 8 pixels, and masks not',
        'Move the masks back, or crop and resize them exactly as the images',
    ),
    Rule(
        'misplaced',
        'Masks that do not fit their images',
        WARNING,
        'have a mask that follows the edges in the image better when it is moved or mirrored',
        'an image that was flipped without its mask',
        'Look at them, and find the right masks',
    ),
    Rule(
        'exchanged',
        'Exchanged classes',
        WARNING,
        'have a mask in which two classes seem to be exchanged, judging by the colors of other images',
        'in one image road is labeled as sky, and sky as road',
        'Look at them, and fix the labels',
    ),
    Rule(
        'inconsistent',
        'Contradictory masks of one image',
        WARNING,
        'have another mask than an equal image, or than an image that looks almost the same',
        'a frame that two people have labeled differently',
        'Look at them, and decide on one way to label',
    ),
    # Splits.
    Rule(
        'overlap',
        'The same images in two splits',
        HARMFUL,
        'images with the same bytes in two splits',
        'a name in train.txt and in val.txt',
        'Remove them from one of the lists',
        'removes them from the split that is not evaluated on',
    ),
    Rule(
        'similar',
        'Near-duplicates in two splits',
        WARNING,
        'images that look almost like one in another split: gradients of 17 x 17 thumbnails with a correlation of 0.97',
        'frames of one video in train and in val',
        'Keep the frames of a video, or the photos of a scene, in one split',
    ),
    Rule(
        'sequence',
        'Neighboring frames in two splits',
        WARNING,
        'images with numbers beside the numbers of images in another split, and which look more like these than like '
        'other images',
        'frames of a video, a second apart, that are distributed at random over train and val',
        'Keep the frames of a video, or the slices of a scan, in one split; build_folder_data does so with '
        '--group_pattern',
    ),
    Rule(
        'repeated',
        'Repeated images in a split',
        WARNING,
        'the same image twice in a split',
        'a copy under another name',
        'Remove the copies, and check that their masks agree',
        'removes copies with equal masks',
    ),
    Rule(
        'no_evaluation',
        'No split to evaluate on',
        WARNING,
        'no split to evaluate on',
        'only train.txt',
    ),
    Rule(
        'large_images',
        'Images larger than the default crop',
        NOTE,
        'images larger than the crop size 513 that train and eval use by default',
        'photos of 3000 x 4000',
    ),
)

RULES = {rule.name: rule for rule in _RULES}
