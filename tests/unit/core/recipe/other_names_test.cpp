#include "core/recipe/other_names.h"

#include <gtest/gtest.h>

namespace accel::other_names_test {
namespace {

struct HintCase {
  const char* kind;
  const char* name;
  const char* hint;
};

constexpr HintCase kComponents[] = {
    {"model", "resnet18", "write 'resnet' with 'depth: 18'"},
    {"model", "ResNet-50", "write 'resnet' with 'depth: 50'"},
    {"model", "torchvision.models.resnet34", "write 'resnet' with 'depth: 34'"},
    {"model", "resnet_101", "write 'resnet' with 'depth: 101'"},
    {"model", "resnet152", "write 'resnet' with 'depth: 152'"},
    {"model", "ResNetForImageClassification", "write 'resnet'"},
    {"model", "bert-base-uncased", "write 'auto' with 'weights', the model's folder"},
    {"model", "BertForSequenceClassification", "write 'bert'"},
    {"model", "roberta-base", "write 'roberta'"},
    {"model", "distilbert-base-cased", "write 'distilbert'"},
    {"model", "GPT2LMHeadModel", "write 'gpt'"},
    {"model", "LlamaForCausalLM", "write 'llama'"},
    {"model", "vit_b_16", "write 'vit'"},
    {"model", "AutoModelForCausalLM", "write 'auto' with 'weights', the model's folder"},
    {"model", "nn.Transformer",
     "write 'gpt' or 'llama' for a language model, 'bert' for an encoder, 'vit' for images"},
    {"model", "SimpleCNN", "write 'lenet'"},
    {"model", "LogisticRegression", "write 'linear'"},
    {"model", "MLPClassifier", "write 'mlp'"},
    {"model", "efficientnet_b0",
     "export it from Python and write 'exported': see docs/exported-models.md"},
    {"task", "CrossEntropyLoss", "write 'classification'"},
    {"task", "nn.BCEWithLogitsLoss", "write 'classification', with two classes"},
    {"task", "MSELoss", "write 'regression'"},
    {"task", "L1Loss", "write 'regression' with 'loss: mae'"},
    {"task", "HuberLoss", "write 'regression' with 'loss: huber'"},
    {"task", "CausalLM", "write 'causal_lm'"},
    {"task", "masked-language-modeling", "write 'masked_lm'"},
    {"task", "pos_tagging", "write 'token_classification'"},
    {"task", "knowledge_distillation", "write 'distill'"},
    {"task", "MultiTask", "write 'multi_head'"},
    {"task", "policy_gradient", "write 'reinforce'"},
    {"task", "IPO",
     "write 'dpo', with the loss as 'loss_type'; 'orpo' and 'simpo' need no reference"},
    {"task", "PPO",
     "tasks on preferences are dpo, orpo and simpo; a plugin can have others: accel-run plugin "
     "new task VENDOR/NAME"},
    {"metric", "top1", "write 'accuracy'"},
    {"metric", "f1_macro", "write 'f1' with 'average: macro'"},
    {"metric", "micro_f1", "write 'f1' with 'average: micro'"},
    {"metric", "BinaryF1", "write 'f1' with 'average: binary'"},
    {"metric", "f1_weighted", "write 'f1', whose 'average' is macro, micro or binary"},
    {"metric", "precision_score", "write 'f1', the harmonic mean of precision and recall"},
    {"metric", "top_5_accuracy", "write 'top_k' with 'k: [5]'"},
    {"metric", "top3", "write 'top_k' with 'k: [3]'"},
    {"metric", "RMSE", "write 'mse', the square of it"},
    {"metric", "exact-match", "write 'exact_match'"},
    {"metric", "span_f1", "write 'entity_f1'"},
    {"metric", "eval_loss", "leave it out: the loss is always evaluated"},
    {"metric", "wer",
     "no metric here is like it; a plugin can be: accel-run plugin new metric VENDOR/NAME"},
    {"tracker", "WandbLogger", "write 'wandb'"},
    {"tracker", "SummaryWriter", "write 'tensorboard'"},
    {"tracker", "comet_ml", "write 'comet'"},
    {"tracker", "MLFlowLogger", "write 'mlflow'"},
    {"tracker", "CSVLogger", "write 'csv'"},
    {"tracker", "dvc", "write 'dvclive'"},
    {"tracker", "neptune", "write 'wandb', 'mlflow' or 'comet': none writes for neptune"},
    {"tracker", "jsonl", "leave it out: the terminal and metrics.jsonl have every value"},
    {"callback", "ModelCheckpoint", "use the section 'checkpoint'"},
    {"callback", "LearningRateMonitor", "leave it out: the learning rate is logged"},
    {"callback", "TQDMProgressBar", "leave it out: a terminal has a progress bar"},
    {"callback", "ReduceLROnPlateau", "write 'scheduler: plateau'"},
    {"callback", "LearningRateScheduler", "use the section 'scheduler'"},
    {"callback", "TensorBoard", "use the list 'trackers'"},
    {"callback", "GradientAccumulationScheduler", "use 'train.gradient_accumulation_steps'"},
    {"callback", "StochasticWeightAveraging", "write 'ema'"},
    {"callback", "generate_samples", "write 'generate'"},
    {"callback", "TerminateOnNaN", "leave it out: a run ends when its loss is not finite"},
    {"optimizer", "AdamW8bit", "write 'adamw'"},
    {"optimizer", "apex.optimizers.FusedAdam", "write 'adam'"},
    {"optimizer", "NAdam", "none is like it; 'adamw' is the usual choice"},
    {"optimizer", "SGDM", "write 'sgd' with 'momentum: 0.9'"},
    {"optimizer", "nesterov", "write 'sgd' with 'momentum: 0.9' and 'nesterov: true'"},
    {"optimizer", "rmsprop_bnb", "write 'rmsprop'"},
    {"optimizer", "paged_lion_8bit", "write 'lion'"},
    {"optimizer", "LBFGS", "none is like it; 'adamw' is the usual choice"},
    {"scheduler", "get_cosine_schedule_with_warmup", "write 'cosine' with 'warmup'"},
    {"scheduler", "get_linear_schedule_with_warmup", "write 'linear' with 'warmup'"},
    {"scheduler", "none", "write 'constant'"},
    {"scheduler", "CosineAnnealingWarmRestarts", "write 'cosine' with 'cycles'"},
    {"scheduler", "CyclicLR", "write 'one_cycle'"},
    {"scheduler", "step_decay", "write 'step'"},
    {"scheduler", "LambdaLR",
     "a plugin can have any curve: accel-run plugin new scheduler VENDOR/NAME"},
    {"dataset", "jsonlines", "write 'jsonl'"},
    {"dataset", "pandas", "write 'csv'"},
    {"dataset", "parquet_files", "write 'parquet'"},
    {"dataset", "load_dataset", "write 'hf'"},
    {"dataset", "TextDataset", "write 'text'"},
    {"dataset", "images", "write 'image_folder'"},
    {"dataset", "wds", "write 'webdataset'"},
    {"dataset", "StreamingDataset", "write 'mds'"},
    {"dataset", "FashionMNIST", "write 'idx', the format of its files"},
    {"dataset", "numpy", "write 'npy'"},
    {"dataset", "sharegpt", "write 'chat'"},
    {"dataset", "memmap", "write 'tokens'"},
    {"dataset", "TFRecord", "convert it to 'parquet', 'mds', 'webdataset' or 'npy'"},
    {"dataset", "cifar100", "write 'image_folder', for a folder per class"},
    {"transform", "ToTensor", "leave it out: images are read as tensors"},
    {"transform", "RandomResizedCrop", "write 'random_crop', after 'resize'"},
    {"transform", "ColorJitter",
     "none is like it; a plugin can be: accel-run plugin new transform VENDOR/NAME"},
    {"transform", "rgb2gray", "write 'grayscale'"},
    {"transform", "OneHotEncode", "write 'one_hot'"},
    {"transform", "Cutout", "write 'random_erase'"},
    {"transform", "StandardScaler", "write 'normalize'"},
    {"transform", "DataCollatorForLanguageModeling", "write 'mask_tokens'"},
};

constexpr HintCase kKeys[] = {
    {"", "opt", "write 'optimizer'"},
    {"", "sched", "write 'scheduler'"},
    {"", "loss_fn", "write 'task', which has the loss"},
    {"", "label_smoothing_factor", "write 'task: {type: classification, label_smoothing: 0.1}'"},
    {"", "class_weight", "write 'task: {type: classification, class_weights: [...]}'"},
    {"", "optim_args", "write the options inside the section 'optimizer'"},
    {"", "lr_scheduler_kwargs", "write it inside the section 'scheduler'"},
    {"", "adapter", "write 'lora' inside the section 'model'"},
    {"", "lora_r", "write 'lora: {rank: 8, ...}' inside the section 'model'"},
    {"", "pretrained", "write 'weights', a folder, inside the section 'model'"},
    {"", "load", "write 'resume' inside the section 'checkpoint', or 'weights' inside 'model'"},
    {"", "unfreeze", "write 'freeze' inside the section 'train': the rest is trained"},
    {"", "drop", "write 'dropout' inside the section 'model'"},
    {"", "kernel_size",
     "write it inside the section 'model': 'accel-run explain model NAME' lists the options"},
    {"", "RandAugment",
     "write a list 'transform' inside the section 'data': see 'accel-run list transform'"},
    {"", "reprob", "write 'transform: [random_erase]' inside the section 'data'"},
    {"", "model_ema", "write 'callbacks: [ema]'"},
    {"", "EarlyStop", "write 'callbacks: [early_stop]'"},
    {"", "tensorboard", "write 'trackers: [tensorboard]'"},
    {"", "wandb_entity", "write 'trackers: [{type: wandb, entity: ...}]'"},
    {"", "validation_data", "write 'eval' inside the section 'data'"},
    {"", "data_dir", "write 'path' inside the section 'data.train'"},
    {"", "label_column", "write 'target' inside the section 'data.train'"},
    {"", "limit_train_batches", "write 'limit' inside the section 'data.train'"},
    {"", "limit_val_batches", "write 'limit' inside the section 'data.eval'"},
    {"", "evals_per_epoch", "write 'every' inside the section 'eval'"},
    {"", "num_sanity_val_steps", "write 'at_start: true' inside the section 'eval'"},
    {"", "saves_per_epoch", "write 'every' inside the section 'checkpoint'"},
    {"", "enable_checkpointing", "write 'every: never' inside the section 'checkpoint'"},
    {"", "logging_strategy", "write 'every' inside the section 'log'"},
    {"", "logging_dir", "write 'name': a run writes to runs/NAME"},
    {"", "mini_batch_size", "write 'micro_batch' inside the section 'train'"},
    {"", "auto_find_batch_size", "write 'micro_batch: auto' inside the section 'train'"},
    {"", "clip_grad", "write 'max_grad_norm' inside the section 'train'"},
    {"", "accum_iter", "write 'gradient_accumulation_steps' inside the section 'train'"},
    {"", "float16", "write 'mixed_precision: fp16' inside the section 'accelerator'"},
    {"", "bfloat16", "write 'mixed_precision: bf16' inside the section 'accelerator'"},
    {"", "cuda", "write 'device: cuda' inside the section 'accelerator'"},
    {"", "mps", "'accelerator.device' is cpu or cuda"},
    {"", "fast_dev_run", "use 'accel-run smoke RECIPE'"},
    {"", "overwrite_output_dir", "leave it out: --fresh starts over and keeps the old run"},
    {"", "do_train",
     "leave it out: a recipe trains, and 'accel-run evaluate' and 'predict' use the result"},
    {"", "push_to_hub", "leave it out: 'accel-run export' writes the model's folder"},
    {"", "disable_tqdm", "leave it out: a terminal has a progress bar, a pipe none"},
    {"", "plot_loss", "leave it out: report.html has the curves"},
    {"", "detect_anomaly", "leave it out: a run ends when its loss is not finite"},
    {"", "local_rank", "leave it out: the launcher sets it"},
    {"", "ddp_backend", "leave it out: gloo on CPUs, NCCL on GPUs"},
    {"", "torch_compile", "leave it out: 'accelerator.kernels' selects the kernels"},
    {"", "load_in_8bit", "write 'model.quantization' with a 'type' of nf4 or int8"},
    {"", "overwrite_cache", "leave it out: tokens are cached"},
    {"", "remove_unused_columns", "leave it out: only the named columns are read"},
    {"", "pin_memory", "leave it out"},
};

TEST(OtherNamesTest, NamesOfOtherProgramsLeadToTheComponentHere) {
  for (const HintCase& c : kComponents) {
    EXPECT_EQ(other_component_hint(c.kind, c.name), c.hint) << c.kind << " " << c.name;
  }
}

TEST(OtherNamesTest, OtherNamesAreUnknown) {
  const HintCase cases[] = {{"model", "gpt", ""},
                            {"model", "", ""},
                            {"metric", "resnet18", ""},
                            {"model", "acme/resnet18", ""},
                            {"model", "myresnet18", ""}};
  for (const HintCase& c : cases) {
    EXPECT_EQ(other_component_hint(c.kind, c.name), c.hint) << c.kind << " " << c.name;
  }
}

TEST(OtherNamesTest, KeysWithoutACounterpartLeadToWhatExpressesThem) {
  for (const HintCase& c : kKeys) EXPECT_EQ(other_key_hint(c.name), c.hint) << c.name;
  EXPECT_EQ(other_key_hint("lr"), "") << "an option";
  EXPECT_EQ(other_key_hint("nonsense"), "");
}

TEST(OtherNamesTest, ValuesOfOtherProgramsLeadToThoseHere) {
  EXPECT_EQ(other_value_hint("cp_comm_strategy", "alltoall"),
            "write 'ring': keys and values travel from rank to rank");
  EXPECT_EQ(other_value_hint("cp_comm_strategy", "tree"), "");
  EXPECT_EQ(other_value_hint("device", "alltoall"), "");
}

}  // namespace
}  // namespace accel::other_names_test
