#include "runner/cli/machine_layer.h"

#include <memory>
#include <optional>
#include <string>

#include "core/base/text.h"
#include "core/recipe/scalar.h"
#include "parallel/rendezvous/launcher_channel.h"
#include "parallel/rendezvous/machine_info.h"
#include "parallel/rendezvous/rank_info.h"

namespace accel {
namespace {

class MachineLayer {
 public:
  MachineLayer(Node& section, const MachineInfo& info, Diagnostics& problems)
      : section_(section), info_(info), problems_(problems) {}

  void apply() {
    set("num_machines", info_.machines, info_.machines_name);
    if (info_.least_machines < info_.machines) {
      set("min_machines", info_.least_machines, info_.machines_name);
    }
    if (info_.machines > 1) {
      set("machine_rank", info_.machine_rank, info_.rank_name);
      if (!info_.main_address.empty()) {
        set("main_process_ip", info_.main_address, info_.address_name, true);
        set("main_process_port", info_.main_port, info_.address_name);
      }
    }
    if (info_.ranks_per_machine) {
      set("num_processes", *info_.ranks_per_machine * info_.machines, info_.machines_name);
    }
  }

 private:
  void set(const char* key, int64_t value, const std::string& variable) {
    set(key, std::to_string(value), variable, false);
  }

  void set(const char* key, const std::string& value, const std::string& variable, bool quoted) {
    const Node::Entry* given = section_.find(key);
    const Scalar* scalar = given ? given->node.scalar() : nullptr;
    if (given && !given->node.null() &&
        !(scalar && (scalar->text == "auto" || scalar->text == value))) {
      problems_.error(given->node.where,
                      text("'{}' is {}, but {} of {} says {}", key, given->node.describe(),
                           variable, info_.scheduler, value),
                      "leave it out: the scheduler sets it");
      return;
    }
    const auto source =
        std::make_shared<const Source>(Source{variable, value, Source::Kind::kEnvironment, 0});
    Node node = scalar_node(value, quoted, {source, 1, 1});
    if (Node::Entry* entry = section_.find(key)) {
      entry->node = std::move(node);
    } else {
      section_.map()->push_back({key, node.where, node});
    }
  }

  Node& section_;
  const MachineInfo& info_;
  Diagnostics& problems_;
};

int64_t machines_of(const Node& recipe) {
  const Node::Entry* section = recipe.find("accelerator");
  const Node::Entry* count = section ? section->node.find("num_machines") : nullptr;
  const Scalar* scalar = count ? count->node.scalar() : nullptr;
  return scalar ? parse_integer(*scalar).value.value_or(1) : 1;
}

}  // namespace

void add_machines(Node& recipe, const EnvironmentLookup& lookup, Diagnostics& problems) {
  std::optional<MachineInfo> info = find_machine(lookup);
  if (!info && recipe.map()) {
    const Node::Entry* section = recipe.find("accelerator");
    // A recipe with a rank has been given all that the host lists could tell.
    if (section && section->node.find("machine_rank")) return;
    info = find_machine_of(machines_of(recipe), host_name(), lookup);
  }
  if (!info || !recipe.map()) return;
  Node::Entry* section = recipe.find("accelerator");
  if (!section) {
    recipe.map()->push_back({"accelerator", {}, Node(Node::Map{}, {})});
    section = &recipe.map()->back();
  }
  if (section->node.null()) section->node = Node(Node::Map{}, section->node.where);
  if (section->node.map()) MachineLayer(section->node, *info, problems).apply();
}

void fit_to_ranks(Node& recipe, const EnvironmentLookup& lookup) {
  Node::Entry* section = recipe.map() ? recipe.find("accelerator") : nullptr;
  if (!section || !section->node.find("min_machines") || !lookup(kTokenVariable)) return;
  const std::optional<RankInfo> place = find_rank(lookup);
  if (!place) return;
  const int64_t machines = place->world / place->local_world;
  Node::Map& options = *section->node.map();
  std::erase_if(options, [&](const Node::Entry& entry) {
    const bool of_several = entry.key == "machine_rank" || entry.key == "main_process_ip" ||
                            entry.key == "main_process_port";
    return entry.key == "num_processes" || entry.key == "num_machines" ||
           (of_several && (machines == 1 || entry.key == "machine_rank"));
  });
  const auto source = std::make_shared<const Source>(
      Source{"WORLD_SIZE", std::to_string(place->world), Source::Kind::kEnvironment, 0});
  const Span where = {source, 1, 1};
  const auto set = [&](const char* key, int64_t value) {
    options.push_back({key, where, scalar_node(std::to_string(value), false, where)});
  };
  set("num_processes", place->world);
  set("num_machines", machines);
  if (machines > 1) set("machine_rank", place->rank / place->local_world);
}

}  // namespace accel
