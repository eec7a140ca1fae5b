// The reading half of pickle.h: a stack machine over nodes in one vector, turned into a tree at the
// end. Pickles share nodes and may even make circles of them, which a tree cannot hold.
#include <algorithm>
#include <bit>

#include "runner/formats/checksum.h"
#include "runner/formats/pickle.h"

namespace accel {
namespace {

constexpr size_t kMaxStack = 100'000;
constexpr int kMaxDepth = 64;
// What a pickle of n bytes may unfold to, in bytes: shared parts are copied out, within reason.
constexpr size_t kTreeBytes = size_t{64} << 20;
constexpr size_t kTreeBytesPerByte = 64;

using NodeId = uint32_t;

/// A value whose parts are other nodes: the items of a list or tuple, a dict's keys and values by
/// turns, the tuple of a call's arguments or of an id.
struct PickleNode {
  Value value;
  std::vector<NodeId> parts;
};

class PickleReader {
 public:
  PickleReader(ByteSpan bytes, const GlobalFilter& allowed)
      : in_(bytes, "the pickle"),
        allowed_(allowed),
        max_tree_bytes_(kTreeBytes + kTreeBytesPerByte * bytes.size()) {}

  Value read() {
    while (!done_) step(in_.little<uint8_t>());
    if (in_.left() != 0) throw FormatError("the pickle goes on after its end");
    if (stack_.size() != 1 || !marks_.empty()) {
      throw FormatError("the pickle ends with values left over");
    }
    return tree(stack_.back(), 0);
  }

 private:
  void step(uint8_t opcode) {
    if (step_plain(opcode) || step_container(opcode) || step_object(opcode)) return;
    throw FormatError("the pickle has opcode 0x" + hex_text(opcode).substr(14) +
                      ", which is not among those that are read");
  }

  /// False when the opcode is of another group.
  bool step_plain(uint8_t opcode) {
    switch (opcode) {
      case 'N':
        push(Value());
        break;
      case 0x88:
        push(true);
        break;
      case 0x89:
        push(false);
        break;
      case 'K':
        push(int64_t{in_.little<uint8_t>()});
        break;
      case 'M':
        push(int64_t{in_.little<uint16_t>()});
        break;
      case 'J':
        push(int64_t{in_.little<int32_t>()});
        break;
      case 0x8a:
        push(long_integer());
        break;
      case 'G':
        push(big_endian_double());
        break;
      case 'X':
        push(std::string(as_text(in_.take(in_.little<uint32_t>()))));
        break;
      default:
        return false;
    }
    return true;
  }

  bool step_container(uint8_t opcode) {
    switch (opcode) {
      case ']':
        push(Value::List());
        break;
      case '}':
        push(Value::Dict());
        break;
      case ')':
        push(Value::Tuple());
        break;
      case '(':
        marks_.push_back(stack_.size());
        break;
      case 't':
        push(Value::Tuple(), pop_marked());
        break;
      case 0x85:
        push(Value::Tuple(), pop(1));
        break;
      case 0x86:
        push(Value::Tuple(), pop(2));
        break;
      case 0x87:
        push(Value::Tuple(), pop(3));
        break;
      case 'a':
        append(pop(1));
        break;
      case 'e':
        append(pop_marked());
        break;
      case 's':
        set_items(pop(2));
        break;
      case 'u':
        set_items(pop_marked());
        break;
      default:
        return false;
    }
    return true;
  }

  bool step_object(uint8_t opcode) {
    switch (opcode) {
      case 0x80:
        check_protocol(in_.little<uint8_t>());
        break;
      case 'c':
        push_global();
        break;
      case 'R':
        call(pop(2));
        break;
      case 'b':
        pop(1);
        break;  // attributes: nothing that is read has any worth keeping
      case 'Q':
        push(Value::Persistent(), {arguments(pop(1)[0])});
        break;
      case 'q':
        remember(in_.little<uint8_t>());
        break;
      case 'r':
        remember(in_.little<uint32_t>());
        break;
      case 'h':
        recall(in_.little<uint8_t>());
        break;
      case 'j':
        recall(in_.little<uint32_t>());
        break;
      case '.':
        done_ = true;
        break;
      default:
        return false;
    }
    return true;
  }

  static void check_protocol(uint8_t protocol) {
    if (protocol != 2) {
      throw FormatError("the pickle has protocol " + std::to_string(protocol) + ", not 2");
    }
  }

  void push(Value value, std::vector<NodeId> parts = {}) {
    nodes_.push_back({std::move(value), std::move(parts)});
    push_id(static_cast<NodeId>(nodes_.size() - 1));
  }

  void push_id(NodeId id) {
    if (stack_.size() >= kMaxStack) throw FormatError("the pickle stacks too many values");
    stack_.push_back(id);
  }

  std::vector<NodeId> pop_from(size_t start) {
    std::vector<NodeId> taken(stack_.begin() + static_cast<ptrdiff_t>(start), stack_.end());
    stack_.resize(start);
    return taken;
  }

  /// The topmost values, none of them below the last mark.
  std::vector<NodeId> pop(size_t count) {
    if (stack_.size() - floor() < count) throw FormatError("the pickle takes more than it has");
    return pop_from(stack_.size() - count);
  }

  std::vector<NodeId> pop_marked() {
    if (marks_.empty()) throw FormatError("the pickle has no mark where it needs one");
    const size_t start = marks_.back();
    marks_.pop_back();
    return pop_from(start);
  }

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  PickleNode& top() {
    if (stack_.size() == floor()) throw FormatError("the pickle takes more than it has");
    return nodes_[stack_.back()];
  }

  int64_t long_integer() {
    const ByteSpan raw = in_.take(in_.little<uint8_t>());
    if (raw.size() > sizeof(int64_t)) throw FormatError("the pickle has a number beyond 64 bits");
    uint64_t value = 0;
    for (size_t i = 0; i < raw.size(); ++i) value |= std::to_integer<uint64_t>(raw[i]) << (8 * i);
    const bool negative = !raw.empty() && (raw.back() & std::byte{0x80}) != std::byte{0};
    if (negative && raw.size() < sizeof value) value |= ~uint64_t{0} << (8 * raw.size());
    return static_cast<int64_t>(value);
  }

  double big_endian_double() {
    return std::bit_cast<double>(__builtin_bswap64(in_.little<uint64_t>()));
  }

  void append(const std::vector<NodeId>& items) {
    PickleNode& target = top();
    if (!target.value.as<Value::List>()) throw FormatError("the pickle appends to no list");
    target.parts.insert(target.parts.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<NodeId>& items) {
    PickleNode& target = top();
    if (!target.value.as<Value::Dict>()) throw FormatError("the pickle sets items of no dict");
    if (items.size() % 2 != 0) throw FormatError("the pickle has a key without a value");
    target.parts.insert(target.parts.end(), items.begin(), items.end());
  }

  std::string line() {
    std::string out;
    for (char c; (c = static_cast<char>(in_.little<uint8_t>())) != '\n';) out += c;
    return out;
  }

  void push_global() {
    Value::Global global;
    global.module = line();
    global.name = line();
    if (!allowed_(global)) {
      throw FormatError("the pickle names '" + global.module + "." + global.name +
                        "', which is not among the classes that are read");
    }
    push(std::move(global));
  }

  /// The node, which must be a tuple.
  NodeId arguments(NodeId id) const {
    if (!nodes_[id].value.as<Value::Tuple>()) {
      throw FormatError("the pickle has something other than a tuple for arguments");
    }
    return id;
  }

  void call(const std::vector<NodeId>& taken) {
    const NodeId tuple = arguments(taken[1]);
    const auto* callable = nodes_[taken[0]].value.as<Value::Global>();
    if (!callable) throw FormatError("the pickle calls something that has no name");
    if (callable->module != "collections" || callable->name != "OrderedDict") {
      return push(Value::Call{*callable, {}}, {tuple});
    }
    if (!nodes_[tuple].parts.empty()) {
      throw FormatError("the pickle makes an OrderedDict from arguments");
    }
    push(Value::Dict());
  }

  void remember(uint32_t slot) {
    // Pickle counts its slots; a jump ahead would let a few bytes ask for gigabytes.
    if (slot > memo_.size()) throw FormatError("the pickle's memo skips ahead");
    top();
    if (slot == memo_.size()) memo_.push_back(0);
    memo_[slot] = stack_.back();
  }

  void recall(uint32_t slot) {
    if (slot >= memo_.size()) throw FormatError("the pickle recalls what it never kept");
    push_id(memo_[slot]);
  }

  std::vector<Value> trees(const std::vector<NodeId>& ids, int depth) {
    std::vector<Value> out;
    out.reserve(std::min<size_t>(ids.size(), 4096));
    for (const NodeId id : ids) out.push_back(tree(id, depth));
    return out;
  }

  Value tree(NodeId id, int depth) {
    const PickleNode& node = nodes_[id];
    if (depth >= kMaxDepth) throw FormatError("the pickle nests too deeply or holds itself");
    const auto* text = node.value.as<std::string>();
    tree_bytes_ += sizeof(Value) + (text ? text->size() : 0);
    if (tree_bytes_ > max_tree_bytes_) throw FormatError("the pickle unfolds to too many values");
    if (const auto* call = node.value.as<Value::Call>()) {
      return Value::Call{call->callable, trees(nodes_[node.parts[0]].parts, depth + 1)};
    }
    if (node.value.as<Value::Persistent>()) {
      return Value::Persistent{trees(nodes_[node.parts[0]].parts, depth + 1)};
    }
    if (node.value.as<Value::List>()) return Value::List{trees(node.parts, depth + 1)};
    if (node.value.as<Value::Tuple>()) return Value::Tuple{trees(node.parts, depth + 1)};
    if (node.value.as<Value::Dict>()) return dict(trees(node.parts, depth + 1));
    return node.value;
  }

  static Value dict(std::vector<Value> parts) {
    Value::Dict out;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      out.items.emplace_back(std::move(parts[i]), std::move(parts[i + 1]));
    }
    return out;
  }

  ByteReader in_;
  const GlobalFilter& allowed_;
  std::vector<PickleNode> nodes_;
  std::vector<NodeId> stack_;
  std::vector<size_t> marks_;
  std::vector<NodeId> memo_;
  size_t max_tree_bytes_;
  size_t tree_bytes_ = 0;
  bool done_ = false;
};

}  // namespace

Value read_pickle(ByteSpan bytes, const GlobalFilter& allowed) {
  return PickleReader(bytes, allowed).read();
}

const Value* Value::find(std::string_view key) const {
  const auto* dict = as<Dict>();
  if (!dict) return nullptr;
  const auto found = std::find_if(dict->items.rbegin(), dict->items.rend(), [&](const auto& item) {
    const auto* name = item.first.template as<std::string>();
    return name && *name == key;
  });
  return found == dict->items.rend() ? nullptr : &found->second;
}

}  // namespace accel
