// The component that a section of a recipe names.
#include "core/base/text.h"
#include "core/recipe/catalog_index.h"
#include "core/recipe/key_hints.h"

namespace accel {
namespace {

/// Names that recipes may use and that cannot be supported.
constexpr struct {
  const char* kind;
  const char* name;
  const char* reason;
  const char* hint;
} kRefused[] = {
    {"tracker", "aim", "Aim's store can be written by its own Python package only",
     "use 'tensorboard': 'aim convert tensorboard' imports it where tensorflow is installed"},
};

std::string missing_type_hint(const CatalogIndex& catalog, const Node::Map& component) {
  for (const Node::Entry& entry : component) {
    const Scalar* value = entry.node.scalar();
    if (value && catalog.items().contains(value->text)) {
      return text("write 'type' in place of '{}'", entry.key);
    }
  }
  return text("'accel-run list {}' shows what there is", catalog.kind());
}

/// Reports options that the component with the most similar name lacks, if there is one: the name
/// is probably its, and all errors are reported in one pass.
void report_options_of_closest(const CatalogIndex& catalog, const std::string& name,
                               const Node::Map& component, Reading& reading) {
  const auto meant = catalog.items().find(closest(name, catalog.names()));
  if (meant == catalog.items().end()) return;
  Node::Map options;
  for (const Node::Entry& entry : component) {
    if (entry.key != "type") options.push_back(entry);
  }
  report_unknown_keys(options, meant->second.fields, reading);
}

}  // namespace

const ComponentInfo* CatalogIndex::choose(const Node& node, Reading& reading) const {
  const Node* type = &node;  // a bare scalar is short for {type: scalar}
  if (node.map()) {
    const Node::Entry* entry = node.find("type");
    if (!entry) {
      reading.problems.error(node.where, text("the {} has no 'type'", kind_),
                             missing_type_hint(*this, *node.map()));
      return nullptr;
    }
    type = &entry->node;
  }
  const Scalar* scalar = type->scalar();
  if (!scalar) {
    reading.wrong_type(*type, node.map() ? "type" : kind_,
                       (kind_ == "optimizer" ? "the name of an " : "the name of a ") + kind_);
    return nullptr;
  }
  const auto found = items_.find(scalar->text);
  if (found != items_.end()) return &found->second;
  for (const auto& refused : kRefused) {
    if (refused.kind != kind_ || refused.name != scalar->text) continue;
    reading.problems.error(type->where,
                           text("there is no {} '{}': {}", kind_, scalar->text, refused.reason),
                           refused.hint);
    return nullptr;
  }
  reading.problems.error(type->where, text("no {} is named '{}'", kind_, scalar->text),
                         unknown_name_hint(scalar->text));
  if (node.map()) report_options_of_closest(*this, scalar->text, *node.map(), reading);
  return nullptr;
}

}  // namespace accel
