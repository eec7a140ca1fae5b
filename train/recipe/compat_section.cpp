#include "train/recipe/compat_section.h"

namespace accel {

Schema<CompatSection> CompatSection::schema() {
  return Schema<CompatSection>()
      .field("dataloader_generator", &CompatSection::dataloader_generator,
             "Dropout masks of which script. own: of one whose DataLoaders have "
             "`generator=torch.Generator()`. shared: of one whose DataLoaders have no `generator`: "
             "a seed is drawn from the generator of dropout at the start of each epoch and "
             "evaluation, so evaluations change the training after them. One process only.")
      .field(
          "use_seedable_sampler", &CompatSection::use_seedable_sampler,
          "Order of the samples. true: of a script with Accelerate's seedable sampler, a function "
          "of seed and epoch. false, with `dataloader_generator: shared`: of one without, whose "
          "RandomSampler draws the seed of each epoch's order from the generator of dropout; "
          "batches are not prefetched beyond an epoch.");
}

}  // namespace accel
