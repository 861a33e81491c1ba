"""The text of `deeplab --help`, which imports nothing, so that it appears at once."""

from __future__ import annotations

ALL_FLAGS = '--helpfull'
HELP_WORDS = ('--help', '-h', '-help', ALL_FLAGS, '--helpshort', '-?')
TRAIN_EXAMPLE = '--dataset_dir=tfrecord --train_logdir=logs/train --train_crop_size=513,513 --train_batch_size=8'
# What each program does, in the order of the help.
GROUPS = {
    'First steps': {
        'demo': 'Run all steps on a small generated data set in a few minutes: build, train, evaluate, visualize.',
    },
    'Data': {
        'build_voc2012_data': 'Write TFRecords of a data set in the layout of PASCAL VOC: images, masks, lists.',
        'build_cityscapes_data': 'Write TFRecords of Cityscapes.',
        'build_ade20k_data': 'Write TFRecords of ADE20K.',
        'build_coco_data': 'Write TFRecords of COCO with semantic masks from panoptic segments or instances.',
        'build_coco_stuff_data': 'Write TFRecords of COCO-Stuff.',
        'build_mapillary_data': 'Write TFRecords of Mapillary Vistas.',
        'build_camvid_data': 'Write TFRecords of CamVid with 11 or 32 classes.',
        'build_folder_data': 'Write TFRecords and a description of images with masks or annotations of labeling tools.',
        'build_classification_data': 'Write TFRecords for image classification from folders of classes or labels.',
        'remove_gt_colormap': 'Convert masks with a color palette to masks of class ids.',
        'download': 'Download a published checkpoint or a data set, or list what can be downloaded.',
        'download_and_convert_data': 'Write TFRecords of flowers, CIFAR-10, MNIST or Visual Wake Words.',
        'datasets': 'List the data sets that are known by name, or those in a folder; index records.',
        'doctor': 'Look for faults in records, or in images and masks, before training; suggest sizes and flags.',
        'preview': 'Draw the input of training: records, the effect of each augmentation, augmented samples.',
    },
    'Training and evaluation': {
        'train': 'Train a network on the records of a data set.',
        'cross_validate': 'Run cross-validation: train without each fold in turn, and evaluate on that fold.',
        'eval': 'Evaluate checkpoints: mean IoU, and the IoU of each class.',
        'verify': 'Evaluate a checkpoint with published settings, and compare the mean IoU with the published one.',
        'report': 'Write an HTML page about one or more training runs: curves, metrics, confusion matrix, images.',
        'compare': 'Write an HTML page that compares checkpoints or exports on the same images.',
        'networks': 'List all networks with their numbers of parameters and multiply-adds.',
        'presets': 'List the published checkpoints, or show the flags for one of them.',
        'checkpoint': 'Show the variables of a checkpoint, the network it fits, and what a network would restore.',
        'average_checkpoints': 'Average the weights of checkpoints of a network, and recompute batch norm statistics.',
        'launch': 'Run synchronous training workers on this machine, and restart them if they are killed.',
        'server': 'Run the TensorFlow server of one machine in distributed training.',
    },
    'Prediction': {
        'predict': 'Predict the classes of image files, folders and videos.',
        'rank': 'Order unlabeled images by uncertainty and diversity, as candidates for labeling.',
        'vis': 'Visualize the predictions of a checkpoint.',
        'merge': 'Merge the results of jobs that divided the work with --part.',
        'eval_coco_format': 'Evaluate predictions in the COCO panoptic format: panoptic quality or parsing covering.',
    },
    'Image classification, as in TF-Slim': {
        'train_image_classifier': 'Train an image classifier, with the flags of TF-Slim.',
        'eval_image_classifier': 'Evaluate an image classifier, with the flags of TF-Slim.',
        'export_inference_graph': 'Write the graph of an image classifier without its weights.',
    },
    'Deployment': {
        'export_model': 'Export a checkpoint as frozen graph, SavedModel, tflite, ONNX or OpenVINO, and check it.',
        'convert_to_tflite': 'Convert a frozen graph to TensorFlow Lite, with the flags of the original.',
        'benchmark': 'Measure speed and memory of inference and training on this machine, or of exports.',
    },
}
SUMMARIES = {name: summary for programs in GROUPS.values() for name, summary in programs.items()}


def text() -> str:
    """Returns the programs with their summaries, and examples."""
    width = max(map(len, SUMMARIES))
    lines = ['DeepLab: semantic segmentation, from images and masks to a trained, evaluated and exported network.', '']
    lines += ['Usage: deeplab PROGRAM --flag=value ...']
    for title, programs in GROUPS.items():
        lines += ['', f'{title}:', *(f'  {name:{width}}  {summary}' for name, summary in programs.items())]
    lines += ['', 'deeplab PROGRAM --help shows the usual flags of a program, deeplab PROGRAM --helpfull all of them;']
    lines += ['deeplab --version prints the version.']
    lines += ['', 'Examples:', '  deeplab demo', f'  deeplab train {TRAIN_EXAMPLE}']
    return '\n'.join(lines)
