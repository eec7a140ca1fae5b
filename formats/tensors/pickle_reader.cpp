// First half of pickle reading: a stack machine that builds the graph of nodes.
#include <array>
#include <bit>
#include <map>

#include "core/base/text.h"
#include "formats/checksum.h"
#include "formats/tensors/pickle_nodes.h"
#include "formats/tensors/pickle_stream.h"

namespace accel {
namespace {

constexpr size_t kMaxStack = 100'000;
// Memory per value: an item of a deque with its share of the deque's own memory, and an id in a
// growing vector during reallocation.
template <class T>
constexpr size_t kDequeBytes = sizeof(T) + (sizeof(T) + 7) / 8;
constexpr size_t kItemBytes = 3 * sizeof(PickleId);

class PickleReader {
 public:
  PickleReader(ByteSpan bytes, const PickleRules& rules, MemoryBudget& budget)
      : in_(bytes, "the pickle"), rules_(rules), budget_(budget) {}

  /// Reads one pickle; `after` is the number of bytes that follow it.
  Value read(size_t& after) {
    while (!done_) step(in_.little<uint8_t>());
    after = in_.left();
    if (stack_.size() != 1 || !marks_.empty()) {
      throw FormatError("the pickle ends with unused values");
    }
    Value out = pickle_tree(graph_, stack_.back(), rules_, budget_);
    budget_.give_back(taken_);
    return out;
  }

 private:
  void step(uint8_t opcode) {
    if (step_plain(opcode) || step_container(opcode) || step_object(opcode)) return;
    if (rules_.protocol == 4 && step_protocol_4(opcode)) return;
    throw FormatError(
        text("the pickle has the unsupported opcode 0x{}", hex_text(opcode).substr(14)));
  }

  /// False for an opcode of another group.
  bool step_plain(uint8_t opcode) {
    switch (opcode) {
      case 'N':
        push_shared(Value::None(), none_);
        break;
      case 0x88:
        push_shared(true, true_);
        break;
      case 0x89:
        push_shared(false, false_);
        break;
      case 'K': {
        const auto number = in_.little<uint8_t>();
        push_shared(int64_t{number}, small_[number]);
        break;
      }
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
        push_text(in_.take(in_.little<uint32_t>()));
        break;
      default:
        return false;
    }
    return true;
  }

  bool step_container(uint8_t opcode) {
    switch (opcode) {
      case ']':
        push(PickleNode::List{no_items()});
        break;
      case '}':
        push(PickleNode::Dict{no_items()});
        break;
      case ')':
        push_shared(PickleNode::Tuple{0, 0}, empty_tuple_);
        break;
      case '(':
        mark();
        break;
      case 't':
        push_tuple(pop_marked());
        break;
      case 0x85:
        push_tuple(pop(1));
        break;
      case 0x86:
        push_tuple(pop(2));
        break;
      case 0x87:
        push_tuple(pop(3));
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
      case 'c': {
        const std::string_view module = line();
        push_global(module, line());
        break;
      }
      case 'R':
      case 0x81:  // NEWOBJ: the class is called without its __init__
        call(pop(2));
        break;
      case 'b':
        set_state(pop(1)[0]);
        break;
      case 'Q':
        push(PickleNode::Persistent{arguments(pop(1)[0])});
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

  bool step_protocol_4(uint8_t opcode) {
    switch (opcode) {
      case 0x8c:
      case 'C':
        push_text(in_.take(in_.little<uint8_t>()));
        break;
      case 'B':
        push_text(in_.take(in_.little<uint32_t>()));
        break;
      case 0x8d:
      case 0x8e:
        push_text(in_.take(in_.little<uint64_t>()));
        break;
      case 0x93:
        push_named(pop(2));
        break;
      case 0x94:
        remember(static_cast<uint32_t>(memo_.size()));
        break;
      case 0x95:
        check_frame(in_.little<uint64_t>());
        break;
      default:
        return false;
    }
    return true;
  }

  void check_protocol(uint8_t protocol) const {
    if (protocol != rules_.protocol) {
      throw FormatError(text("the pickle has protocol {}, {} wanted", protocol, rules_.protocol));
    }
  }

  void check_frame(uint64_t bytes) const {
    if (bytes > in_.left()) throw FormatError("the pickle has a frame beyond its end");
  }

  void charge(size_t bytes) {
    budget_.take(bytes);
    taken_ += bytes;
  }

  /// Appends to one of the graph's deques; returns the index.
  template <class T>
  uint32_t add(std::deque<T>& values, T value) {
    if (values.size() >= PickleGraph::kNoState) throw FormatError("the pickle has too many values");
    charge(kDequeBytes<T>);
    values.push_back(std::move(value));
    return static_cast<uint32_t>(values.size() - 1);
  }

  template <class T>
  void push(T data) {
    push_id(add(graph_.nodes, {data}));
  }

  /// A value that never changes: one node, remembered in `id`, for all its places.
  template <class T>
  void push_shared(T data, std::optional<PickleId>& id) {
    if (!id) id = add(graph_.nodes, {data});
    push_id(*id);
  }

  void push_text(ByteSpan bytes) {
    push(PickleNode::Text{add(graph_.texts, std::string_view(as_text(bytes)))});
  }

  void push_tuple(const std::vector<PickleId>& members) {
    const auto first = static_cast<uint32_t>(graph_.members.size());
    for (const PickleId id : members) add(graph_.members, id);
    push(PickleNode::Tuple{first, static_cast<uint32_t>(members.size())});
  }

  uint32_t no_items() { return add(graph_.items, {}); }

  void mark() {
    if (marks_.size() >= kMaxStack) throw FormatError("the pickle exceeds the stack limit");
    marks_.push_back(stack_.size());
  }

  void push_id(PickleId id) {
    if (stack_.size() >= kMaxStack) throw FormatError("the pickle exceeds the stack limit");
    stack_.push_back(id);
  }

  std::vector<PickleId> pop_from(size_t start) {
    std::vector<PickleId> taken(stack_.begin() + static_cast<ptrdiff_t>(start), stack_.end());
    stack_.resize(start);
    return taken;
  }

  /// The topmost values above the last mark.
  std::vector<PickleId> pop(size_t count) {
    if (stack_.size() - floor() < count) throw FormatError("the pickle pops from an empty stack");
    return pop_from(stack_.size() - count);
  }

  std::vector<PickleId> pop_marked() {
    if (marks_.empty()) throw FormatError("the pickle pops a missing mark");
    const size_t start = marks_.back();
    marks_.pop_back();
    return pop_from(start);
  }

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  const PickleNode& top() const {
    if (stack_.size() == floor()) throw FormatError("the pickle pops from an empty stack");
    return graph_.nodes[stack_.back()];
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

  void add_items(uint32_t index, const std::vector<PickleId>& added) {
    std::vector<PickleId>& items = graph_.items[index];
    charge(added.size() * kItemBytes);
    items.insert(items.end(), added.begin(), added.end());
  }

  void append(const std::vector<PickleId>& items) {
    const auto* list = top().as<PickleNode::List>();
    if (!list) throw FormatError("the pickle appends to a value that is not a list");
    add_items(list->index, items);
  }

  void set_items(const std::vector<PickleId>& items) {
    const auto* dict = top().as<PickleNode::Dict>();
    if (!dict) throw FormatError("the pickle sets items of a value that is not a dict");
    if (items.size() % 2 != 0) throw FormatError("the pickle has a key without a value");
    add_items(dict->index, items);
  }

  void set_state(PickleId state) {
    const auto* call = top().as<PickleNode::Call>();
    if (rules_.keep_state && call) graph_.members[call->first + 2] = state;
  }

  std::string_view line() {
    const std::byte* first = in_.take(0).data();
    size_t length = 0;
    while (in_.little<uint8_t>() != '\n') ++length;
    return as_text({first, length});
  }

  void push_global(std::string_view module, std::string_view name) {
    const auto [found, added] = globals_.try_emplace({module, name});
    if (added) {
      const Value::Global named = {std::string(module), std::string(name)};
      if (!rules_.allowed(named)) {
        throw FormatError(text("the pickle names '{}.{}', which is not an allowed class",
                               named.module, named.name));
      }
      charge(sizeof *found + 4 * sizeof(void*));
      const PickleNode::Global node = {add(graph_.texts, module)};
      add(graph_.texts, name);
      found->second = add(graph_.nodes, {node});
    }
    push_id(found->second);
  }

  void push_named(const std::vector<PickleId>& taken) {
    const auto* module = node(taken[0]).as<PickleNode::Text>();
    const auto* name = node(taken[1]).as<PickleNode::Text>();
    if (!module || !name) {
      throw FormatError("the pickle names a class by a value that is not a string");
    }
    push_global(graph_.texts[module->index], graph_.texts[name->index]);
  }

  const PickleNode& node(PickleId id) const { return graph_.nodes[id]; }

  /// The node, which must be a tuple.
  PickleId arguments(PickleId id) const {
    if (!node(id).as<PickleNode::Tuple>()) {
      throw FormatError("the pickle has arguments that are not a tuple");
    }
    return id;
  }

  void call(const std::vector<PickleId>& taken) {
    const PickleId tuple = arguments(taken[1]);
    const auto* callable = node(taken[0]).as<PickleNode::Global>();
    if (!callable) throw FormatError("the pickle calls a value that is not a class");
    if (graph_.texts[callable->module] != "collections" ||
        graph_.texts[callable->module + 1] != "OrderedDict") {
      const uint32_t first = add(graph_.members, taken[0]);
      add(graph_.members, tuple);
      add(graph_.members, PickleGraph::kNoState);
      return push(PickleNode::Call{first});
    }
    if (node(tuple).as<PickleNode::Tuple>()->count != 0) {
      throw FormatError("the pickle builds an OrderedDict from arguments");
    }
    push(PickleNode::Dict{no_items()});
  }

  void remember(uint32_t slot) {
    // pickle numbers slots in order; a jump ahead could allocate gigabytes.
    if (slot > memo_.size()) throw FormatError("the pickle's memo skips ahead");
    top();
    if (slot == memo_.size()) add(memo_, PickleId{0});
    memo_[slot] = stack_.back();
  }

  void recall(uint32_t slot) {
    if (slot >= memo_.size()) throw FormatError("the pickle reads an empty memo slot");
    push_id(memo_[slot]);
  }

  ByteReader in_;
  const PickleRules& rules_;
  MemoryBudget& budget_;
  size_t taken_ = 0;  ///< charged for the graph, which is temporary
  PickleGraph graph_;
  std::optional<PickleId> none_, true_, false_, empty_tuple_;
  std::array<std::optional<PickleId>, 256> small_;  ///< of integers
  std::map<std::pair<std::string_view, std::string_view>, PickleId> globals_;
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;
  std::deque<PickleId> memo_;
  bool done_ = false;
};

}  // namespace

Value read_pickle(ByteSpan bytes, const PickleRules& rules, MemoryBudget& budget) {
  size_t after = 0;
  Value value = PickleReader(bytes, rules, budget).read(after);
  if (after != 0) throw FormatError("the pickle has bytes after its end");
  return value;
}

Value take_pickle(ByteSpan& bytes, const PickleRules& rules, MemoryBudget& budget) {
  size_t after = 0;
  Value value = PickleReader(bytes, rules, budget).read(after);
  bytes = bytes.last(after);
  return value;
}

Value read_pickle(ByteSpan bytes, const PickleRules& rules) {
  MemoryBudget budget(bytes.size(), "the pickle");
  return read_pickle(bytes, rules, budget);
}

}  // namespace accel
