"""Hints for flags of other toolkits: the flags that set the same here. To add a hint, add a row to the table."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Hint(NamedTuple):
    """A hint for some flags that no program has.

    Attributes:
      words: names of the flags, with _ for -, without leading dashes.
      flags: the corresponding flags here; the first one that the program has replaces {flag} in `text`. Empty: the
        hint applies to any program.
      text: end of the message that starts with "Unknown flag --NAME: ".
    """

    words: str
    flags: str
    text: str = 'use {flag}.'


HINTS = (
    Hint(
        'epochs num_epochs max_epochs n_epochs num_train_epochs train_epochs',
        'training_number_of_steps',
        'training is measured in steps. Set {flag} to epochs * images / batch size.',
    ),
    Hint(
        'steps num_steps max_steps total_steps train_steps iters iterations max_iter max_iters num_iterations',
        'training_number_of_steps steps',
    ),
    Hint(
        'lr lr0 learning_rate base_lr init_lr initial_lr initial_learning_rate',
        'base_learning_rate',
        'use {flag}, or --adam_learning_rate with --optimizer=adam.',
    ),
    Hint(
        'batch_size batch bs batchsize samples_per_gpu batch_size_per_gpu per_device_train_batch_size',
        'train_batch_size eval_batch_size vis_batch_size',
    ),
    Hint(
        'pretrained weights pretrained_weights load_from init_checkpoint finetune ckpt ckpt_path checkpoint model_path',
        'tf_initial_checkpoint checkpoint_path checkpoint_dir file',
        'give the checkpoint as {flag}=PATH; deeplab presets lists published ones.',
    ),
    Hint(
        'resume resume_from resume_from_checkpoint auto_resume continue continue_training last_ckpt',
        'train_logdir',
        'omit it. Training resumes from the newest checkpoint in {flag} if there is one.',
    ),
    Hint(
        'device devices gpu gpus gpu_id gpu_ids num_gpus ngpu ngpus cuda no_cuda accelerator nproc_per_node',
        'num_clones',
        'omit it. A GPU is used if TensorFlow finds one; CUDA_VISIBLE_DEVICES selects among several, and '
        '{flag}=N uses N of them.',
    ),
    Hint(
        'device devices gpu gpus gpu_id gpu_ids num_gpus ngpu ngpus cuda no_cuda accelerator nproc_per_node',
        '',
        'omit it. A GPU is used if TensorFlow finds one; CUDA_VISIBLE_DEVICES selects among several.',
    ),
    Hint(
        'imgsz img_size imgsize image_size input_size crop_size crop resolution',
        'train_crop_size eval_crop_size vis_crop_size crop_size',
        'use {flag}=HEIGHT,WIDTH.',
    ),
    Hint(
        'data data_dir data_path data_root dataroot dataset_path dataset_root records tfrecord_dir',
        'dataset_dir',
        'use {flag}, the folder of the TFRecord shards that a builder wrote; --dataset describes the data set.',
    ),
    Hint(
        'threads intra_op_threads inter_op_threads num_intra_threads num_inter_threads intra_op_parallelism_threads '
        'inter_op_parallelism_threads omp_num_threads cpu_threads',
        'num_threads',
    ),
    Hint(
        'workers num_workers dataloader_num_workers loader_workers num_threads threads',
        'num_workers',
    ),
    Hint(
        'workers num_workers dataloader_num_workers loader_workers num_threads threads',
        '',
        'omit it. The number of threads is chosen for the machine.',
    ),
    Hint(
        'output_dir out_dir save_dir work_dir workdir logdir model_dir exp_dir results_dir project exp_name run_name '
        'default_root_dir',
        'train_logdir eval_logdir vis_logdir export_path output_dir workdir',
    ),
    Hint(
        'amp use_amp fp16 bf16 half mixed_precision float16 bfloat16',
        'precision',
        'use {flag}=bfloat16 or {flag}=float16.',
    ),
    Hint(
        'quantize quantized quantization quant int8 precision dtype fp16 float16 half',
        'format',
        'name the type after the format in {flag}, such as {flag}=tflite:int8 or {flag}=onnx:float16.',
    ),
    Hint('quantize quantized quantization quant qat int8', 'quantize_delay_step', 'use {flag}, in steps.'),
    Hint('random_seed manual_seed rng_seed random_state', 'seed'),
    Hint(
        'model',
        'checkpoint_path checkpoint_dir',
        'give the checkpoint as {flag}=PATH (to predict, an export as --export_path=PATH), the kind of network as '
        '--model_variant=NAME.',
    ),
    Hint('model arch architecture backbone encoder model_name net network', 'model_variant'),
    Hint(
        'nc n_classes classes num_classes',
        'num_classes dataset',
        'set {flag}; a data set file, --dataset=FILE.json, also has num_classes.',
    ),
    Hint('optim opt solver', 'optimizer'),
    Hint('wd l2 l2_reg', 'weight_decay'),
    Hint('scheduler lr_scheduler lr_schedule lr_policy sched', 'learning_policy'),
    Hint('warmup warmup_steps warmup_iters num_warmup_steps', 'slow_start_step', 'use {flag}, in steps.'),
    Hint('warmup_epochs', 'slow_start_step', 'set {flag} to epochs * images / batch size.'),
    Hint(
        'patience early_stopping early_stop early_stopping_patience',
        'early_stop_evals',
        'use {flag}, with --eval_split and --eval_every.',
    ),
    Hint(
        'val_interval eval_interval eval_steps val_every check_val_every_n_epoch val_check_interval validate',
        'eval_every',
        'use {flag}, in steps, with --eval_split.',
    ),
    Hint(
        'save_steps save_freq save_period save_interval save_every checkpoint_interval',
        'save_interval_secs',
        'use {flag}, in seconds.',
    ),
    Hint('log_interval logging_steps log_every print_freq log_freq', 'log_steps', 'use {flag}, in steps.'),
    Hint(
        'gradient_accumulation_steps grad_accum grad_accum_steps accumulate accumulate_grad_batches accum_iter',
        'accumulation_steps',
    ),
    Hint('ema ema_decay model_ema model_ema_decay', 'moving_average_decay use_moving_average'),
    Hint('grad_clip clip_grad max_grad_norm grad_clip_norm gradient_clip_val', 'clip_gradient_norm'),
    Hint('freeze_bn frozen_bn bn_freeze', 'fine_tune_batch_norm', 'use {flag}=false.'),
    Hint(
        'freeze freeze_backbone freeze_layers',
        'trainable_scopes',
        'use {flag}, the variables to train, such as --trainable_scopes=aspp,decoder,logits.',
    ),
    Hint('compile jit_compile torch_compile', 'xla'),
    Hint(
        'distributed ddp local_rank world_size rank dist_url num_nodes nnodes',
        'num_clones',
        'use {flag}=N for several GPUs; --master, --task and --num_replicas for several machines.',
    ),
    Hint('cfg config config_file hyp', '', 'flags can be read from a file with one per line: --flagfile=FILE.'),
    Hint('tta flip_test flip hflip', 'add_flipped_images'),
    Hint('scales multi_scale ms_test', 'eval_scales inference_scales'),
    Hint('images image_dir img_dir images_dir', 'image_folder'),
    Hint(
        'source input input_dir input_path image image_path img image_file images image_dir img_dir images_dir',
        'inputs',
        'name images or their folder without a flag, or use {flag}=PATH.',
    ),
    Hint('masks mask_dir label_dir labels annotations ann_dir', 'semantic_segmentation_folder mask_folder'),
    Hint('split subset', 'train_split eval_split vis_split'),
    Hint('format export_type', 'export_format'),
    Hint(
        'wandb tensorboard logger report_to',
        'train_logdir eval_logdir',
        'omit it. Event files for TensorBoard are written to {flag}.',
    ),
    Hint('verbose quiet debug', 'v', 'use {flag}: --v=1 logs more, --v=-1 warnings and errors only.'),
)


def find(name: str, known: Collection[str]) -> str | None:
    """Returns the end of the message about an unknown flag; None if no row applies to it and to the program.

    Args:
      name: name of the flag, as given on the command line, without leading dashes.
      known: the program's flags.
    """
    plain = name.lower().replace('-', '_')
    for word in (plain, plain.removeprefix('no_'), plain.removeprefix('no')):
        for hint in HINTS:
            fitting = [flag for flag in hint.flags.split() if flag in known]
            if word in hint.words.split() and (fitting or not hint.flags):
                return hint.text.format(flag=f'--{fitting[0]}' if fitting else '')
    return None
