#include "core/recipe/other_names.h"

#include <cctype>
#include <sstream>
#include <string_view>

namespace accel {
namespace {

/// Names without punctuation and in lower case, separated by blanks; a final '*' matches any rest.
struct OtherName {
  const char* kind;
  const char* names;
  const char* hint;
};

constexpr OtherName kOtherNames[] = {
    {"model", "resnet18", "write 'resnet' with 'depth: 18'"},
    {"model", "resnet34", "write 'resnet' with 'depth: 34'"},
    {"model", "resnet50", "write 'resnet' with 'depth: 50'"},
    {"model", "resnet101", "write 'resnet' with 'depth: 101'"},
    {"model", "resnet152", "write 'resnet' with 'depth: 152'"},
    {"model", "resnetfor* resnetmodel", "write 'resnet'"},
    {"model", "bertbase* bertlarge*", "write 'auto' with 'weights', the model's folder"},
    {"model", "bertfor* bertmodel", "write 'bert'"},
    {"model", "robertabase robertalarge robertafor* robertamodel", "write 'roberta'"},
    {"model", "distilbertbase* distilbertfor*", "write 'distilbert'"},
    {"model", "gpt2lmheadmodel gpt2model gpt2small gpt2medium gpt2large mingpt", "write 'gpt'"},
    {"model", "llamaforcausallm mistralforcausallm qwen2forcausallm qwen3forcausallm",
     "write 'llama'"},
    {"model", "t5base t5small t5large t5for* t5model flant5* mt5*", "write 't5'"},
    {"model", "vitb16 vitb32 vitl16 vitbase* vitlarge* vitfor* vittiny* vitsmall*", "write 'vit'"},
    {"model", "automodel* pretrainedmodel huggingface hf",
     "write 'auto' with 'weights', the model's folder"},
    {"model", "transformer transformerencoder transformerdecoder",
     "write 'gpt' or 'llama' for a language model, 'bert' for an encoder, 'vit' for images"},
    {"model", "convnet simplecnn smallcnn conv2d", "write 'lenet'"},
    {"model", "logisticregression linearregression logistic perceptron softmaxregression",
     "write 'linear'"},
    {"model", "mlpclassifier mlpregressor feedforward fnn ffn dnn dense neuralnetwork",
     "write 'mlp'"},
    {"model",
     "efficientnet* mobilenet* convnext* vgg* densenet* unet* swin* deit* bart* lstm gru rnn",
     "export it from Python and write 'exported': see docs/exported-models.md"},
    {"task", "crossentropyloss celoss nllloss softmax multiclass classifier",
     "write 'classification'"},
    {"task", "bcewithlogitsloss bceloss bce binarycrossentropy binaryclassification binary",
     "write 'classification', with two classes"},
    {"task", "mseloss mse l2loss l2 meansquarederror", "write 'regression'"},
    {"task", "l1loss l1 mae meanabsoluteerror", "write 'regression' with 'loss: mae'"},
    {"task", "smoothl1loss smoothl1 huberloss huber", "write 'regression' with 'loss: huber'"},
    {"task", "causallm lm sft textgeneration nexttokenprediction pretraining instructiontuning",
     "write 'causal_lm'"},
    {"task", "maskedlanguagemodeling maskedlm", "write 'masked_lm'"},
    {"task", "seq2seqlm text2text text2textgeneration translation summarization",
     "write 'seq2seq'"},
    {"task", "tagging postagging sequencelabeling", "write 'token_classification'"},
    {"task", "knowledgedistillation kd", "write 'distill'"},
    {"task", "multitask multihead", "write 'multi_head'"},
    {"task", "policygradient reinforcementlearning rl vpg", "write 'reinforce'"},
    {"task", "ipo hinge robust rlhf preference preferences",
     "write 'dpo', with the loss as 'loss_type'; 'orpo' and 'simpo' need no reference"},
    {"task", "cpo", "write 'simpo', the loss of CPO without a reference"},
    {"task", "ppo grpo rloo kto",
     "tasks on preferences are dpo, orpo and simpo; a plugin can have others: accel-run plugin "
     "new task VENDOR/NAME"},
    {"metric",
     "top1 top1accuracy acc1 categoricalaccuracy sparsecategoricalaccuracy binaryaccuracy "
     "multiclassaccuracy",
     "write 'accuracy'"},
    {"metric", "f1macro macrof1 f1scoremacro", "write 'f1' with 'average: macro'"},
    {"metric", "f1micro microf1 f1scoremicro", "write 'f1' with 'average: micro'"},
    {"metric", "f1binary binaryf1", "write 'f1' with 'average: binary'"},
    {"metric", "f1weighted weightedf1", "write 'f1', whose 'average' is macro, micro or binary"},
    {"metric", "precision recall precisionscore recallscore",
     "write 'f1', the harmonic mean of precision and recall"},
    {"metric", "top5 top5accuracy acc5 topkaccuracy topkaccuracyscore",
     "write 'top_k' with 'k: [5]'"},
    {"metric", "top3 top3accuracy", "write 'top_k' with 'k: [3]'"},
    {"metric", "rmse rootmeansquarederror", "write 'mse', the square of it"},
    {"metric", "em exactmatch", "write 'exact_match'"},
    {"metric", "nerf1 spanf1", "write 'entity_f1'"},
    {"metric", "loss evalloss valloss crossentropy", "leave it out: the loss is always evaluated"},
    {"metric", "wer cer confusionmatrix meanap map iou dice",
     "no metric here is like it; a plugin can be: accel-run plugin new metric VENDOR/NAME"},
    {"tracker", "wandblogger wandboffline weightsandbiases", "write 'wandb'"},
    {"tracker", "tensorboardlogger summarywriter tboard", "write 'tensorboard'"},
    {"tracker", "cometml cometlogger", "write 'comet'"},
    {"tracker", "mlflowlogger mlflowtracker", "write 'mlflow'"},
    {"tracker", "csvlogger csvfile", "write 'csv'"},
    {"tracker", "dvc dvclivelogger", "write 'dvclive'"},
    {"tracker", "neptune neptuneai", "write 'wandb', 'mlflow' or 'comet': none writes for neptune"},
    {"tracker", "json jsonl file console stdout print",
     "leave it out: the terminal and metrics.jsonl have every value"},
    {"callback", "modelcheckpoint checkpointcallback checkpoint savemodel",
     "use the section 'checkpoint'"},
    {"callback", "learningratemonitor lrmonitor lrlogger",
     "leave it out: the learning rate is logged"},
    {"callback", "progressbar tqdmprogressbar richprogressbar tqdm",
     "leave it out: a terminal has a progress bar"},
    {"callback", "reducelronplateau", "write 'scheduler: plateau'"},
    {"callback", "learningratescheduler lrscheduler", "use the section 'scheduler'"},
    {"callback", "tensorboard wandb csvlogger mlflow", "use the list 'trackers'"},
    {"callback", "gradientaccumulationscheduler", "use 'train.gradient_accumulation_steps'"},
    {"callback", "swa stochasticweightaveraging weightaveraging emacallback modelema emamodel",
     "write 'ema'"},
    {"callback", "generatesamples sampletext textgeneration", "write 'generate'"},
    {"callback", "terminateonnan", "leave it out: a run ends when its loss is not finite"},
    {"optimizer", "adamw8bit fusedadamw adamwfused adamwschedulefree adamwapexfused",
     "write 'adamw'"},
    {"optimizer", "fusedadam adamfused adam8bit", "write 'adam'"},
    {"optimizer", "adamax nadam radam adabelief lamb lars",
     "none is like it; 'adamw' is the usual choice"},
    {"optimizer", "sgdm momentum sgdmomentum sgdwithmomentum", "write 'sgd' with 'momentum: 0.9'"},
    {"optimizer", "nesterov sgdnesterov nag",
     "write 'sgd' with 'momentum: 0.9' and 'nesterov: true'"},
    {"optimizer", "rmsproptorch rmspropbnb", "write 'rmsprop'"},
    {"optimizer", "lion8bit lion32bit pagedlion8bit pagedlion32bit", "write 'lion'"},
    {"optimizer", "lbfgs", "none is like it; 'adamw' is the usual choice"},
    {"scheduler", "getcosineschedulewithwarmup cosinewarmup warmupcosine",
     "write 'cosine' with 'warmup'"},
    {"scheduler", "getlinearschedulewithwarmup linearwarmup warmuplinear",
     "write 'linear' with 'warmup'"},
    {"scheduler", "getconstantschedule getconstantschedulewithwarmup none fixed constantlr nop",
     "write 'constant'"},
    {"scheduler", "cosineannealingwarmrestarts cosinerestarts sgdr",
     "write 'cosine' with 'cycles'"},
    {"scheduler", "cycliclr cyclelr superconvergence", "write 'one_cycle'"},
    {"scheduler", "stepdecay", "write 'step'"},
    {"scheduler", "lambdalr",
     "a plugin can have any curve: accel-run plugin new scheduler VENDOR/NAME"},
    {"dataset", "jsonlines ndjson jsonlfile", "write 'jsonl'"},
    {"dataset", "csvfile pandas tabular dataframe", "write 'csv'"},
    {"dataset", "parquetfile parquetfiles", "write 'parquet'"},
    {"dataset", "datasets loaddataset huggingfacehub hfhub hfdataset", "write 'hf'"},
    {"dataset", "textfile textdataset linebyline plaintext", "write 'text'"},
    {"dataset", "folder images imagefolderdataset imagedataset", "write 'image_folder'"},
    {"dataset", "wds tararchive", "write 'webdataset'"},
    {"dataset", "streamingdataset mosaicml streaming", "write 'mds'"},
    {"dataset", "fashionmnist kmnist emnist", "write 'idx', the format of its files"},
    {"dataset", "numpy npz", "write 'npy'"},
    {"dataset", "sharegpt alpaca chatml conversations instruct messages", "write 'chat'"},
    {"dataset", "pretokenized memmap bin", "write 'tokens'"},
    {"dataset", "tfrecord tfrecords hdf5 h5 lmdb zarr",
     "convert it to 'parquet', 'mds', 'webdataset' or 'npy'"},
    {"dataset", "cifar100 svhn stl10 imagenet imagenet1k",
     "write 'image_folder', for a folder per class"},
    {"transform", "totensor toimage todtype convertimagedtype",
     "leave it out: images are read as tensors"},
    {"transform", "randomresizedcrop", "write 'random_crop', after 'resize'"},
    {"transform",
     "randomverticalflip colorjitter randaugment autoaugment trivialaugmentwide mixup cutmix "
     "randomrotation gaussianblur randomaffine augmix",
     "none is like it; a plugin can be: accel-run plugin new transform VENDOR/NAME"},
    {"transform", "rgb2gray tograyscale", "write 'grayscale'"},
    {"transform", "onehotencode onehotencoding tocategorical", "write 'one_hot'"},
    {"transform", "cutout coarsedropout", "write 'random_erase'"},
    {"transform", "standardize standardscaler zscore", "write 'normalize'"},
    {"transform", "datacollatorforlanguagemodeling masking mlm", "write 'mask_tokens'"},
};

/// Values of other programs for an option here.
struct OtherValue {
  const char* option;
  const char* values;
  const char* hint;
};

constexpr OtherValue kOtherValues[] = {
    {"cp_comm_strategy", "alltoall", "write 'ring': keys and values travel from rank to rank"},
};

struct OtherKey {
  const char* names;
  const char* hint;
};

constexpr OtherKey kOtherKeys[] = {
    {"opt optimizername", "write 'optimizer'"},
    {"sched decaylr", "write 'scheduler'"},
    {"lossfn criterion lossfunction", "write 'task', which has the loss"},
    {"labelsmoothingfactor smoothing labelsmoothing",
     "write 'task: {type: classification, label_smoothing: 0.1}'"},
    {"classweight", "write 'task: {type: classification, class_weights: [...]}'"},
    {"trials parameters searchspace hyperparameters",
     "write 'grid: {KEY: [VALUES]}' for every combination, 'random: {trials: 10, values: ...}' to "
     "draw them, or 'paired'"},
    {"optimargs", "write the options inside the section 'optimizer'"},
    {"lrschedulerkwargs lrdecayiters lrstep stepsize", "write it inside the section 'scheduler'"},
    {"adapter finetuningtype", "write 'lora' inside the section 'model'"},
    {"lorar loraalpha loradropout loratargetlinear loratargetmodules targetmodules",
     "write 'lora: {rank: 8, ...}' inside the section 'model'"},
    {"pretrained initfrom finetune", "write 'weights', a folder, inside the section 'model'"},
    {"load", "write 'resume' inside the section 'checkpoint', or 'weights' inside 'model'"},
    {"unfreeze", "write 'freeze' inside the section 'train': the rest is trained"},
    {"drop dropoutrate dropoutprob", "write 'dropout' inside the section 'model'"},
    {"layers units kernelsize bias classes weightinit initstd filters",
     "write it inside the section 'model': 'accel-run explain model NAME' lists the options"},
    {"mixup cutmix aa augment randaugment normalize crop flip",
     "write a list 'transform' inside the section 'data': see 'accel-run list transform'"},
    {"reprob", "write 'transform: [random_erase]' inside the section 'data'"},
    {"modelema swa", "write 'callbacks: [ema]'"},
    {"earlystop", "write 'callbacks: [early_stop]'"},
    {"tensorboard", "write 'trackers: [tensorboard]'"},
    {"wandbentity wandbname wandbrunname", "write 'trackers: [{type: wandb, entity: ...}]'"},
    {"validationdata valpath testpath testdata valid", "write 'eval' inside the section 'data'"},
    {"datasetpath datadir", "write 'path' inside the section 'data.train'"},
    {"labelnames labelcolumn targetcolumn", "write 'target' inside the section 'data.train'"},
    {"maxsamples limittrainbatches overfitbatches",
     "write 'limit' inside the section 'data.train'"},
    {"limitvalbatches", "write 'limit' inside the section 'data.eval'"},
    {"evaliters evalfreq testevery evalsperepoch", "write 'every' inside the section 'eval'"},
    {"numsanityvalsteps", "write 'at_start: true' inside the section 'eval'"},
    {"savesperepoch save", "write 'every' inside the section 'checkpoint'"},
    {"enablecheckpointing", "write 'every: never' inside the section 'checkpoint'"},
    {"loggingstrategy loggingfirststep", "write 'every' inside the section 'log'"},
    {"loggingdir logdir resultsdir savepath saveto", "write 'name': a run writes to runs/NAME"},
    {"minibatchsize", "write 'micro_batch' inside the section 'train'"},
    {"autofindbatchsize", "write 'micro_batch: auto' inside the section 'train'"},
    {"clipgrad", "write 'max_grad_norm' inside the section 'train'"},
    {"accumulate accumiter", "write 'gradient_accumulation_steps' inside the section 'train'"},
    {"half float16", "write 'mixed_precision: fp16' inside the section 'accelerator'"},
    {"bfloat16", "write 'mixed_precision: bf16' inside the section 'accelerator'"},
    {"cuda", "write 'device: cuda' inside the section 'accelerator'"},
    {"mps tpu xla", "'accelerator.device' is cpu or cuda"},
    {"fastdevrun", "use 'accel-run smoke RECIPE'"},
    {"overwriteoutputdir", "leave it out: --fresh starts over and keeps the old run"},
    {"dotrain doeval dopredict stage",
     "leave it out: a recipe trains, and 'accel-run evaluate' and 'predict' use the result"},
    {"pushtohub hubmodelid", "leave it out: 'accel-run export' writes the model's folder"},
    {"disabletqdm verbose", "leave it out: a terminal has a progress bar, a pipe none"},
    {"plotloss", "leave it out: report.html has the curves"},
    {"detectanomaly", "leave it out: a run ends when its loss is not finite"},
    {"localrank", "leave it out: the launcher sets it"},
    {"ddpbackend backend", "leave it out: gloo on CPUs, NCCL on GPUs"},
    {"torchcompile torchcompilemode compile jitmodeeval benchmark flashattention xformersattention",
     "leave it out: 'accelerator.kernels' selects the kernels"},
    {"loadin8bit loadin4bit quantization",
     "write 'model.quantization' with a 'type' of nf4 or int8"},
    {"llmint8threshold llmint8hasfp16weight",
     "leave it out: layers multiply by dequantized weights, as with a threshold of 0"},
    {"bnb4bitquantstorage", "leave it out: codes are stored as bytes"},
    {"overwritecache datasetpreparedpath preprocessingnumworkers",
     "leave it out: tokens are cached"},
    {"removeunusedcolumns", "leave it out: only the named columns are read"},
    {"pinmemory dataloaderpinmemory", "leave it out"},
};

/// "crossentropyloss" of "torch.nn.CrossEntropyLoss".
std::string bare_name(const std::string& name) {
  std::string out;
  for (const char c : name.substr(name.rfind('.') + 1)) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u)) out += static_cast<char>(std::tolower(u));
  }
  return out;
}

bool has_name(const char* names, const std::string& bare) {
  std::istringstream list(names);
  for (std::string name; list >> name;) {
    const bool starts = name.back() == '*';
    if (starts ? bare.starts_with(name.substr(0, name.size() - 1)) : bare == name) return true;
  }
  return false;
}

}  // namespace

std::string other_component_hint(const std::string& kind, const std::string& name) {
  if (name.find('/') != std::string::npos) return "";  // a plugin's
  const std::string bare = bare_name(name);
  for (const OtherName& other : kOtherNames) {
    if (kind == other.kind && has_name(other.names, bare)) return other.hint;
  }
  return "";
}

std::string other_key_hint(const std::string& key) {
  const std::string bare = bare_name(key);
  for (const OtherKey& other : kOtherKeys) {
    if (has_name(other.names, bare)) return other.hint;
  }
  return "";
}

std::string other_value_hint(const std::string& option, const std::string& value) {
  const std::string bare = bare_name(value);
  for (const OtherValue& other : kOtherValues) {
    if (option == other.option && has_name(other.values, bare)) return other.hint;
  }
  return "";
}

}  // namespace accel
