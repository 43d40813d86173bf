// Takes a side tensor in, and builds the cells that answer intervals.
#include "score/program/side_tensor_state.hpp"

#include <algorithm>
#include <climits>

#include "tilefold/error.hpp"

namespace tilefold::score {

namespace {

Kind kind_of(DType type) {
  if (type == DType::boolean) return Kind::truth;
  return is_float(type) ? Kind::real : Kind::integer;
}

void require_shape(const std::string& name, const TensorView& given) {
  const std::string what = "side tensor " + name;
  if (!given.present()) throw Error(ErrorCode::missing_argument, what + " is absent");
  if (is_fp8(given.dtype()))
    throw Error(ErrorCode::dtype_mismatch,
                what + " is " + given.to_string() + ": fp8 entries are not read");
  if (given.rank() < 1 || given.rank() > SideArray<int>::max_rank)
    throw Error(ErrorCode::shape_mismatch,
                what + " is " + given.to_string() + ": it must have 1 to 4 axes");
  for (int axis = 0; axis < given.rank(); ++axis)
    if (given.dim(axis) > INT32_MAX)
      throw Error(ErrorCode::shape_mismatch,
                  what + " is " + given.to_string() + ": at most 2^31 - 1 entries an axis");
  if (given.empty() || given.data() == nullptr)
    throw Error(ErrorCode::missing_argument, what + " holds no entries");
  if (given.dim(given.rank() - 1) > 1 && given.stride(given.rank() - 1) != 1)
    throw Error(ErrorCode::stride_unsupported,
                what + " is " + given.to_string() + ": its last axis must be contiguous");
}

/// Calls visit(offset in elements) for every entry, the last axis fastest.
template <class Visit> void each_entry(const TensorView& view, const Visit& visit) {
  const std::int64_t last = view.dim(view.rank() - 1), rows = view.element_count() / last;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row, at = 0;
    for (int axis = view.rank() - 2; axis >= 0; --axis) {
      at += rest % view.dim(axis) * view.stride(axis);
      rest /= view.dim(axis);
    }
    for (std::int64_t i = 0; i < last; ++i) visit(at + i);
  }
}

template <class From, class To, class Convert>
std::vector<To> copied(const TensorView& view, const Convert& convert) {
  const From* entries = static_cast<const From*>(view.data());
  std::vector<To> all;
  all.reserve(std::size_t(view.element_count()));
  each_entry(view, [&](std::int64_t at) { all.push_back(convert(entries[at])); });
  return all;
}

std::vector<int> integers_of(const std::string& name, const TensorView& view) {
  switch (view.dtype()) {
    case DType::i8: return copied<std::int8_t, int>(view, [](int x) { return x; });
    case DType::u8: return copied<std::uint8_t, int>(view, [](int x) { return x; });
    case DType::boolean:
      return copied<std::uint8_t, int>(view, [](int x) { return x != 0 ? 1 : 0; });
    default:
      return copied<std::int64_t, int>(view, [&](std::int64_t x) {
        if (x < INT_MIN || x > INT_MAX)
          throw Error(ErrorCode::invalid_argument, "side tensor " + name + " holds " +
                                                       std::to_string(x) +
                                                       ": its entries must fit into 32 bits");
        return int(x);
      });
  }
}

std::vector<float> reals_of(const TensorView& view) {
  switch (view.dtype()) {
    case DType::f64: return copied<double, float>(view, [](double x) { return float(x); });
    case DType::f16: return copied<float16, float>(view, [](float16 x) { return to_float(x); });
    default: return copied<bfloat16, float>(view, [](bfloat16 x) { return to_float(x); });
  }
}

}  // namespace

template <class T> SideArray<T> shape_of_cells(const TensorView& values, unsigned blocked) {
  SideArray<T> array{};
  array.rank = values.rank();
  array.blocked = blocked;
  for (int axis = 0; axis < array.rank; ++axis) {
    array.size[axis] = int(values.dim(axis));
    array.stride[axis] = values.stride(axis);
  }
  const auto is_coarsest = [&](int level) {
    for (int axis = 0; axis < array.rank; ++axis)
      if (array.is_blocked(axis) && array.cells(axis, level) > SideArray<T>::most_cells)
        return false;
    return true;
  };
  long long next = 0;
  while (!is_coarsest(array.levels)) {
    array.begin[array.levels++] = next;
    next += array.cells_of(array.levels);
  }
  return array;
}

template <class T> std::int64_t cell_count(const SideArray<T>& array) {
  if (array.levels == 0) return 0;
  return array.begin[array.levels - 1] + array.cells_of(array.levels);
}

/// Each level from the one below it.
template <class T> void Cells<T>::rebuild() {
  low.assign(std::size_t(cell_count(array)), T(0));
  high.assign(low.size(), T(0));
  array.low = low.data();
  array.high = high.data();
  for (int level = 1; level <= array.levels; ++level) {
    const auto first = std::size_t(array.begin[level - 1]);
    for (long long cell = 0; cell < array.cells_of(level); ++cell) {
      const LowHigh<T> bounds = bounds_below(array, level, cell);
      low[first + std::size_t(cell)] = bounds.low;
      high[first + std::size_t(cell)] = bounds.high;
    }
  }
}

void SideTensorState::take(const TensorView& given) {
  require_shape(name, given);
  const bool in_place = given.dtype() == DType::i32 || given.dtype() == DType::f32;
  if (!in_place && given.device() != Device::cpu())
    throw Error(ErrorCode::dtype_mismatch, "side tensor " + name + " is " + given.to_string() +
                                               " on a device: there it must be i32 or f32");
  kind = kind_of(given.dtype());
  std::vector<int> new_integers;
  std::vector<float> new_reals;
  if (!in_place && kind == Kind::real) new_reals = reals_of(given);
  if (!in_place && kind != Kind::real) new_integers = integers_of(name, given);
  const std::lock_guard lock(mutex_);
  values = given;
  integers = std::move(new_integers);
  reals = std::move(new_reals);
  ++revision;
  renew_cells();
}

void SideTensorState::show(const void* entries) {
  const TensorView here(entries, values.dtype(), values.shape(), values.strides());
  const std::lock_guard lock(mutex_);
  if (kind == Kind::real)
    reals = copied<float, float>(here, [](float x) { return x; });
  else
    integers = copied<int, int>(here, [](int x) { return x; });
  renew_cells();
}

void SideTensorState::renew_cells() {
  for (const auto& list : integer_lists_)
    if (const auto cells = list.lock()) point(*cells);
  for (const auto& list : real_lists_)
    if (const auto cells = list.lock()) point(*cells);
}

namespace {

/// Copies are contiguous.
template <class T> void read_copy(SideArray<T>& array, const std::vector<T>& copy) {
  array.values = copy.data();
  long long stride = 1;
  for (int axis = array.rank - 1; axis >= 0; --axis) {
    array.stride[axis] = array.size[axis] == 1 ? 0 : stride;
    stride *= array.size[axis];
  }
}

template <class T>
void point_at(Cells<T>& cells, const TensorView& values, const std::vector<T>& copy) {
  cells.array = shape_of_cells<T>(values, cells.array.blocked);
  if (!copy.empty())
    read_copy(cells.array, copy);
  else if (values.device() == Device::cpu())
    cells.array.values = static_cast<const T*>(values.data());
  else
    return;
  cells.rebuild();
}

}  // namespace

void SideTensorState::point(Cells<int>& cells) const { point_at(cells, values, integers); }
void SideTensorState::point(Cells<float>& cells) const { point_at(cells, values, reals); }

template <class T>
std::shared_ptr<const Cells<T>> SideTensorState::cells(std::vector<std::weak_ptr<Cells<T>>>& lists,
                                                       unsigned blocked) {
  const std::lock_guard lock(mutex_);
  std::erase_if(lists, [](const auto& list) { return list.expired(); });
  for (const auto& list : lists)
    if (const auto found = list.lock(); found && found->array.blocked == blocked) return found;
  auto made = std::make_shared<Cells<T>>();
  made->array.blocked = blocked;
  point(*made);
  lists.push_back(made);
  return made;
}

std::shared_ptr<const Cells<int>> SideTensorState::integer_cells(unsigned blocked) {
  return cells(integer_lists_, blocked);
}
std::shared_ptr<const Cells<float>> SideTensorState::real_cells(unsigned blocked) {
  return cells(real_lists_, blocked);
}

template SideArray<int> shape_of_cells(const TensorView&, unsigned);
template SideArray<float> shape_of_cells(const TensorView&, unsigned);
template std::int64_t cell_count(const SideArray<int>&);
template std::int64_t cell_count(const SideArray<float>&);
template struct Cells<int>;
template struct Cells<float>;

}  // namespace tilefold::score
