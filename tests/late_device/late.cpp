/* A device for torch whose work is late: a PrivateUse1 backend in which nothing runs until it is told to.
 *
 * Each stream is a queue of tasks. A task runs when a test says so (`late_run`), or when the host waits for it;
 * there is no thread. A test chooses the order between streams, and repeats it exactly.
 *
 * Device memory is a mapping that nobody may touch (PROT_NONE), so that a read by the host is a fault of the
 * process; the bytes are in a shadow at a fixed distance. Memory is poisoned until it is written and when it is
 * freed, and never used again. Tasks hold bare addresses: what nobody keeps alive is freed under them, as it is on
 * a GPU, and a task that finds its operand poisoned is counted as a fault.
 *
 * As on CUDA: the current device and streams belong to a thread; a kernel runs on the current stream of its
 * tensors' device; freed memory is reused in the order of the stream that allocated it, but not before the streams
 * of `record_stream`; pinned memory not before the copies that use it; copies between host and device wait for the
 * host's sake, unless the host's memory is pinned and `non_blocking` is given; copies between devices never do.
 */
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <deque>
#include <map>
#include <mutex>

namespace {

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::IValue;

constexpr auto kLate = c10::DeviceType::PrivateUse1;
constexpr int kDevices = 2, kStreams = 1 << 20;
constexpr size_t kSpace = size_t(1) << 34, kAlignment = 512;
constexpr int kUnwritten = 0xA5, kFreed = 0xDB;

// ---- streams ----------------------------------------------------------------------------------------------

struct Queue;

struct Task {
    std::string name;
    std::function<void()> work;
    std::vector<const void *> operands; // addresses of device and pinned memory
    Queue *awaited = nullptr;           // the task may not run until so many tasks of that queue are done
    uint64_t ticket = 0;
};

struct Queue {
    int device, id;
    std::deque<Task> tasks;
    uint64_t pushed = 0, done = 0;
};

struct Block { // of device or of pinned memory
    size_t size;
    Queue *queue;                             // the one that allocated it; none for pinned memory
    std::vector<std::pair<Queue *, uint64_t>> uses; // up to where each queue used it
    bool freed = false, poisoned = false;
};

struct Event {
    Queue *queue = nullptr;
    uint64_t ticket = 0;
};

struct World {
    std::recursive_mutex mutex;
    std::vector<std::unique_ptr<Queue>> queues[kDevices];
    char *space = nullptr, *shadow = nullptr;
    size_t used[kDevices] = {0, 0};
    std::map<const char *, Block> blocks, pinned;
    std::vector<char *> pinned_to_free;
    std::map<std::string, int64_t> counters;
    std::string faults;
    int64_t allocations_left = -1;
    bool lost = false, capturing = false;
};

World &world()
{
    static World *it = [] { // never destroyed: tensors may outlive everything
        auto made = new World;
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        made->space = (char *)mmap(nullptr, kSpace * kDevices, PROT_NONE, flags, -1, 0);
        made->shadow = (char *)mmap(nullptr, kSpace * kDevices, PROT_READ | PROT_WRITE, flags, -1, 0);
        TORCH_CHECK(made->space != MAP_FAILED && made->shadow != MAP_FAILED, "no address space");
        for (int device = 0; device < kDevices; device++) {
            made->queues[device].emplace_back(new Queue{device, 0, {}, 0, 0});
        }
        return made;
    }();
    return *it;
}

using Lock = std::lock_guard<std::recursive_mutex>;

thread_local int current_device = 0;
thread_local int current_stream[kDevices] = {0, 0};

Queue *queue_of(int device, int64_t id)
{
    TORCH_CHECK(device >= 0 && device < kDevices, "late has no device ", device);
    auto &queues = world().queues[device];
    TORCH_CHECK(id >= 0 && size_t(id) < queues.size(), "late:", device, " has no stream ", id);
    return queues[id].get();
}

Queue *current_queue(int device)
{
    return queue_of(device, current_stream[device]);
}

Queue *new_queue(int device)
{
    auto &queues = world().queues[device];
    TORCH_CHECK(queues.size() < kStreams, "too many streams");
    queues.emplace_back(new Queue{device, int(queues.size()), {}, 0, 0});
    return queues.back().get();
}

bool is_device(const void *address)
{
    auto it = (const char *)address;
    return it >= world().space && it < world().space + kSpace * kDevices;
}

/* Where the bytes of an address are. */
char *bytes_at(const void *address)
{
    return is_device(address) ? world().shadow + ((const char *)address - world().space) : (char *)address;
}

Block *block_at(const void *address)
{
    auto &blocks = is_device(address) ? world().blocks : world().pinned;
    auto next = blocks.upper_bound((const char *)address);
    if (next == blocks.begin()) {
        return nullptr;
    }
    auto &found = *std::prev(next);
    return (const char *)address < found.first + std::max(found.second.size, size_t(1)) ? &found.second : nullptr;
}

void count(const std::string &what)
{
    world().counters[what]++;
}

void fault(const std::string &what)
{
    count("faults");
    world().faults += what + "\n";
}

uint64_t push(Queue *queue, Task task)
{
    TORCH_CHECK(!world().lost, "late:", queue->device, " is lost");
    queue->tasks.push_back(std::move(task));
    return ++queue->pushed;
}

void poison_pinned();

/* Run the first task of a queue. If it has to wait for another queue: run that one if the host demands it. */
bool run_one(Queue *queue, bool demanded)
{
    if (queue->tasks.empty()) {
        return false;
    }
    while (queue->tasks.front().awaited && queue->tasks.front().awaited->done < queue->tasks.front().ticket) {
        if (!demanded || !run_one(queue->tasks.front().awaited, true)) {
            return false;
        }
    }
    Task task = std::move(queue->tasks.front());
    queue->tasks.pop_front();
    for (auto operand : task.operands) {
        auto block = block_at(operand);
        if (block && block->poisoned) {
            fault(task.name + " on late:" + std::to_string(queue->device) + ", stream "
                  + std::to_string(queue->id) + ": its operand was freed");
        }
    }
    if (task.work) {
        // As a kernel would: without the modes of whoever happens to wait.
        c10::impl::ForceDispatchKeyGuard plain{c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{})};
        at::AutoDispatchBelowADInplaceOrView no_autograd;
        try {
            task.work();
        }
        catch (const c10::Error &error) {
            fault(task.name + ": " + error.what_without_backtrace());
        }
        catch (const std::exception &error) {
            fault(task.name + ": " + error.what());
        }
    }
    queue->done++;
    poison_pinned();
    return true;
}

void run_until(Queue *queue, uint64_t ticket)
{
    while (queue->done < ticket && run_one(queue, true)) {
    }
}

/* The host waits, as it would on a GPU even if there is nothing left to do. */
void host_waits(const char *why, Queue *queue, uint64_t ticket)
{
    count("waits");
    count(std::string("waits:") + why);
    run_until(queue, ticket);
}

// ---- memory -----------------------------------------------------------------------------------------------

void *allocate(int device, Queue *queue, size_t size)
{
    auto &it = world();
    TORCH_CHECK(!it.lost, "late:", device, " is lost");
    if (it.allocations_left == 0) {
        TORCH_CHECK_WITH(OutOfMemoryError, false, "late:", device, " out of memory: tried to allocate ", size);
    }
    it.allocations_left -= it.allocations_left > 0;
    size_t room = (size + kAlignment) / kAlignment * kAlignment; // addresses differ, even of no bytes
    TORCH_CHECK_WITH(OutOfMemoryError, it.used[device] + room <= kSpace, "late:", device, " out of memory");
    char *address = it.space + kSpace * device + it.used[device];
    it.used[device] += room;
    memset(bytes_at(address), kUnwritten, size);
    it.blocks[address] = Block{size, queue, {}};
    count("allocations");
    return address;
}

void poison(char *address, Block &block)
{
    memset(bytes_at(address), kFreed, block.size);
    block.poisoned = true;
}

/* Let the queue that allocated a block overwrite it, after what the other queues had to do by now. */
void release(void *pointer)
{
    Lock lock(world().mutex);
    auto address = (char *)pointer;
    auto &block = world().blocks.at(address);
    block.freed = true;
    for (auto &use : block.uses) {
        block.queue->tasks.push_back({"wait for a use", nullptr, {}, use.first, use.first->pushed});
        block.queue->pushed++;
    }
    block.queue->tasks.push_back({"reuse", [address, &block] { poison(address, block); }, {}});
    block.queue->pushed++;
}

struct DeviceAllocator final : c10::Allocator {
    c10::DataPtr allocate(size_t size) override
    {
        Lock lock(world().mutex);
        int device = current_device;
        void *address = ::allocate(device, current_queue(device), size);
        return {address, address, &release, Device(kLate, DeviceIndex(device))};
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return &release;
    }

    void copy_data(void *to, const void *from, size_t size) const override
    {
        memcpy(bytes_at(to), bytes_at(from), size);
    }
} device_allocator;

/* Pinned memory that was freed is used again when the copies that use it are done. */
void poison_pinned()
{
    auto &waiting = world().pinned_to_free;
    auto is_done = [](char *address) {
        auto &block = world().pinned.at(address);
        for (auto &use : block.uses) {
            if (use.first->done < use.second) {
                return false;
            }
        }
        poison(address, block);
        return true;
    };
    waiting.erase(std::remove_if(waiting.begin(), waiting.end(), is_done), waiting.end());
}

void release_pinned(void *pointer)
{
    Lock lock(world().mutex);
    world().pinned.at((char *)pointer).freed = true;
    world().pinned_to_free.push_back((char *)pointer);
    poison_pinned();
}

struct PinnedAllocator final : c10::Allocator {
    c10::DataPtr allocate(size_t size) override
    {
        Lock lock(world().mutex);
        auto address = (char *)aligned_alloc(kAlignment, (size + kAlignment) / kAlignment * kAlignment);
        memset(address, kUnwritten, size);
        world().pinned[address] = Block{size, nullptr, {}};
        count("pinned allocations");
        return {address, address, &release_pinned, Device(c10::kCPU)};
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return &release_pinned;
    }

    void copy_data(void *to, const void *from, size_t size) const override
    {
        memcpy(to, from, size);
    }
} pinned_allocator;

// ---- guards and hooks -------------------------------------------------------------------------------------

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override
    {
        return kLate;
    }

    Device exchangeDevice(Device device) const override
    {
        Device old = getDevice();
        setDevice(device);
        return old;
    }

    Device getDevice() const override
    {
        return Device(kLate, DeviceIndex(current_device));
    }

    void setDevice(Device device) const override
    {
        TORCH_CHECK(device.index() < kDevices, "late has no device ", int(device.index()));
        uncheckedSetDevice(device);
    }

    void uncheckedSetDevice(Device device) const noexcept override
    {
        current_device = device.has_index() ? device.index() : current_device;
    }

    c10::Stream getStream(Device device) const override
    {
        int index = device.has_index() ? device.index() : current_device;
        return stream_of(index, current_stream[index]);
    }

    c10::Stream getDefaultStream(Device device) const override
    {
        return stream_of(device.has_index() ? device.index() : current_device, 0);
    }

    c10::Stream getStreamFromGlobalPool(Device device, bool) const override
    {
        return getNewStream(device, 0);
    }

    c10::Stream getNewStream(Device device, int) const override
    {
        Lock lock(world().mutex);
        int index = device.has_index() ? device.index() : current_device;
        return stream_of(index, new_queue(index)->id);
    }

    c10::Stream exchangeStream(c10::Stream stream) const override
    {
        auto old = getStream(stream.device());
        current_stream[stream.device_index()] = queue_of(stream.device_index(), stream.id())->id;
        return old;
    }

    void *getStreamNativeHandle(const c10::Stream stream) const override
    {
        return queue_of(stream.device_index(), stream.id());
    }

    void record(void **event, const c10::Stream &stream, const DeviceIndex, const c10::EventFlag) const override
    {
        Lock lock(world().mutex);
        if (!*event) {
            *event = new Event;
        }
        auto queue = queue_of(stream.device_index(), stream.id());
        *(Event *)*event = {queue, push(queue, {"event", nullptr, {}})};
        count("events");
    }

    void block(void *event, const c10::Stream &stream) const override
    {
        Lock lock(world().mutex);
        auto it = (Event *)event;
        if (it && it->queue) {
            push(queue_of(stream.device_index(), stream.id()), {"wait", nullptr, {}, it->queue, it->ticket});
        }
    }

    bool queryEvent(void *event) const override
    {
        Lock lock(world().mutex);
        auto it = (Event *)event;
        return !it || !it->queue || it->queue->done >= it->ticket;
    }

    void synchronizeEvent(void *event) const override
    {
        Lock lock(world().mutex);
        if (auto it = (Event *)event; it && it->queue) {
            host_waits("event", it->queue, it->ticket);
        }
    }

    void destroyEvent(void *event, const DeviceIndex) const noexcept override
    {
        delete (Event *)event;
    }

    bool queryStream(const c10::Stream &stream) const override
    {
        Lock lock(world().mutex);
        return queue_of(stream.device_index(), stream.id())->tasks.empty();
    }

    void synchronizeStream(const c10::Stream &stream) const override
    {
        Lock lock(world().mutex);
        auto queue = queue_of(stream.device_index(), stream.id());
        host_waits("stream", queue, queue->pushed);
    }

    void synchronizeDevice(const DeviceIndex device) const override
    {
        Lock lock(world().mutex);
        host_waits("device", queue_of(device, 0), 0);
        for (auto &queue : world().queues[device]) {
            run_until(queue.get(), queue->pushed);
        }
    }

    bool isStreamCapturing(const c10::Stream &) const override
    {
        return world().capturing;
    }

    void recordDataPtrOnStream(const c10::DataPtr &data, const c10::Stream &stream) const override
    {
        Lock lock(world().mutex);
        auto queue = queue_of(stream.device_index(), stream.id());
        if (auto block = block_at(data.get()); block && block->queue != queue) {
            block->uses.emplace_back(queue, 0);
        }
    }

    DeviceIndex deviceCount() const noexcept override
    {
        return kDevices;
    }

    static c10::Stream stream_of(int device, int64_t id)
    {
        return c10::Stream(c10::Stream::UNSAFE, Device(kLate, DeviceIndex(device)), id);
    }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override
    {
        return true;
    }

    bool isAvailable() const override
    {
        return true;
    }

    bool hasPrimaryContext(DeviceIndex) const override
    {
        return true;
    }

    DeviceIndex deviceCount() const override
    {
        return kDevices;
    }

    DeviceIndex getCurrentDevice() const override
    {
        return DeviceIndex(current_device);
    }

    void setCurrentDevice(DeviceIndex device) const override
    {
        Guard().setDevice(Device(kLate, device));
    }

    DeviceIndex exchangeDevice(DeviceIndex device) const override
    {
        auto old = getCurrentDevice();
        if (device >= 0) {
            setCurrentDevice(device);
        }
        return old;
    }

    DeviceIndex maybeExchangeDevice(DeviceIndex device) const override
    {
        return exchangeDevice(device);
    }

    bool isPinnedPtr(const void *address) const override
    {
        Lock lock(world().mutex);
        return !is_device(address) && block_at(address) && !block_at(address)->freed;
    }

    c10::Allocator *getPinnedMemoryAllocator() const override
    {
        return &pinned_allocator;
    }

    Device getDeviceFromPtr(void *address) const override
    {
        TORCH_CHECK(is_device(address), "this address is not on the device");
        return Device(kLate, DeviceIndex(((char *)address - world().space) / kSpace));
    }

    void resizePrivateUse1Bytes(const c10::Storage &storage, size_t size) const override
    {
        TORCH_CHECK(size <= storage.nbytes(), "late cannot enlarge memory");
        storage.unsafeGetStorageImpl()->set_nbytes(size);
    }
};

// ---- tensors ----------------------------------------------------------------------------------------------

/* What a task remembers of a tensor: where its values are, but not the tensor. */
struct Layout {
    void *address;
    std::vector<int64_t> sizes, strides;
    c10::ScalarType dtype;
    bool conjugate, negative;

    explicit Layout(const Tensor &tensor)
        : address(tensor.numel() ? tensor.data_ptr() : nullptr), sizes(tensor.sizes().vec()),
          strides(tensor.strides().vec()), dtype(tensor.scalar_type()), conjugate(tensor.is_conj()),
          negative(tensor.is_neg())
    {
    }

    /* The same values as a tensor of the CPU. */
    Tensor on_host() const
    {
        if (!address) {
            return at::empty_strided(sizes, strides, dtype);
        }
        auto tensor = at::from_blob(bytes_at(address), sizes, strides, c10::TensorOptions(dtype));
        tensor._set_conj(conjugate);
        tensor._set_neg(negative);
        return tensor;
    }
};

bool is_late(const Tensor &tensor)
{
    return tensor.defined() && tensor.device().type() == kLate;
}

Tensor empty_strided(
    c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout>, std::optional<Device> device, std::optional<bool>)
{
    c10::DeviceGuard guard(device.value_or(Device(kLate)));
    c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
    auto type = dtype.value_or(c10::get_default_dtype_as_scalartype());
    return at::detail::empty_strided_generic(sizes, strides, &device_allocator, keys, type);
}

Tensor empty(
    c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
    std::optional<Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format)
{
    c10::DeviceGuard guard(device.value_or(Device(kLate)));
    c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
    auto type = dtype.value_or(c10::get_default_dtype_as_scalartype());
    return at::detail::empty_generic(sizes, &device_allocator, keys, type, format);
}

std::vector<const void *> addresses(std::initializer_list<Tensor> tensors)
{
    std::vector<const void *> found;
    for (auto &tensor : tensors) {
        if (tensor.numel()) {
            found.push_back(tensor.data_ptr());
        }
    }
    return found;
}

void use_pinned(const Tensor &host, Queue *queue)
{
    if (auto block = block_at(host.data_ptr())) {
        block->uses.emplace_back(queue, queue->pushed);
    }
}

Tensor copy_from(const Tensor &from, const Tensor &to, bool non_blocking)
{
    if (!to.numel()) {
        return to;
    }
    Lock lock(world().mutex);
    Tensor source = from.expand_as(to);
    bool reads_host = !is_late(source), writes_host = !is_late(to);
    int there = reads_host ? to.device().index() : source.device().index();
    Queue *queue = current_queue(there), *other = writes_host ? queue : current_queue(to.device().index());
    if (other != queue) { // to another device: the copy waits for what is queued there
        push(queue, {"wait for the other device", nullptr, {}, other, other->pushed});
    }
    Layout old(source), next(to);
    push(queue, {"copy", [old, next] { next.on_host().copy_(old.on_host()); }, addresses({source, to})});
    count(reads_host ? "host to device" : writes_host ? "device to host" : "device to device");
    if (other != queue) {
        push(other, {"wait for the copy", nullptr, {}, queue, queue->pushed});
    }
    if (reads_host || writes_host) {
        auto &host = reads_host ? source : to;
        use_pinned(host, queue);
        if (!non_blocking || !block_at(host.data_ptr())) {
            host_waits("copy", queue, queue->pushed);
        }
    }
    return to;
}

const Tensor &resize(const Tensor &tensor, c10::IntArrayRef sizes, std::optional<c10::MemoryFormat>)
{
    size_t needed = size_t(c10::multiply_integers(sizes)) * tensor.itemsize();
    auto storage = tensor.storage();
    TORCH_CHECK(!tensor.storage_offset(), "late cannot resize a view");
    if (needed > storage.nbytes()) { // what it had is lost
        c10::DeviceGuard guard(tensor.device());
        storage.set_data_ptr(device_allocator.allocate(needed));
        storage.set_nbytes(needed);
    }
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    return tensor;
}

Tensor copy_from_and_resize(const Tensor &from, const Tensor &to)
{
    if (from.sizes() != to.sizes()) {
        resize(to, from.sizes(), std::nullopt);
    }
    return copy_from(from, to, false);
}

void record_stream(Tensor &tensor, c10::Stream stream)
{
    Guard().recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

c10::Scalar local_scalar_dense(const Tensor &tensor)
{
    return tensor.cpu().item();
}

// ---- every other operation --------------------------------------------------------------------------------

/* Replace the tensors in an argument. */
template <class Function> IValue replaced(const IValue &value, const Function &replace)
{
    if (value.isTensor()) {
        return value.toTensor().defined() ? replace(value.toTensor()) : value;
    }
    if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor &tensor : value.toTensorVector()) {
            list.push_back(replace(tensor));
        }
        return list;
    }
    if (value.isOptionalTensorList()) {
        c10::List<std::optional<Tensor>> list;
        for (const std::optional<Tensor> &tensor : value.toOptionalTensorVector()) {
            list.push_back(tensor && tensor->defined() ? std::optional<Tensor>(replace(*tensor)) : tensor);
        }
        return list;
    }
    return value;
}

void by_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack)
{
    count("cpu fallbacks");
    at::native::cpu_fallback(op, stack);
}

/* Compute shapes now, by the kernels of the meta device; values later, by those of the CPU. */
void fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack)
{
    const auto &schema = op.schema();
    size_t count_of = schema.arguments().size(), first = stack->size() - count_of;
    torch::jit::Stack arguments(stack->begin() + long(first), stack->end()), shapes;
    bool writes = schema.is_mutable(), is_odd = false;
    Device device(kLate, DeviceIndex(current_device));
    std::vector<const void *> operands;
    auto look = [&](const Tensor &tensor) {
        if (is_late(tensor)) {
            device = tensor.device();
            if (tensor.numel()) {
                operands.push_back(tensor.data_ptr());
            }
        }
        else {
            is_odd |= tensor.dim() > 0 && tensor.numel() > 0;
        }
        return tensor;
    };
    for (auto &argument : arguments) {
        replaced(argument, look);
    }
    for (auto &result : schema.returns()) {
        is_odd |= result.type()->kind() != c10::TypeKind::TensorType;
    }
    bool is_enlarged = false;
    for (size_t i = 0; i < count_of; i++) { // an `out=` of no elements
        bool is_out = schema.arguments()[i].is_out() && arguments[i].isTensor();
        is_enlarged |= is_out && !arguments[i].toTensor().numel();
    }
    if (is_odd) {
        return by_cpu(op, stack);
    }
    std::vector<Tensor> results;
    if (!writes || is_enlarged) {
        for (auto &argument : arguments) {
            IValue shape = replaced(argument, [](const Tensor &tensor) {
                auto options = tensor.options().device(c10::kMeta);
                return is_late(tensor) ? at::empty_strided(tensor.sizes(), tensor.strides(), options) : tensor;
            });
            shapes.push_back(shape.isDevice() ? IValue(Device(c10::kMeta)) : shape);
        }
        try {
            op.callBoxed(&shapes);
        }
        catch (...) { // the shape depends on the values
            return by_cpu(op, stack);
        }
        for (size_t i = 0; i < shapes.size(); i++) {
            auto tensor = shapes[i].toTensor();
            if (writes) { // `out=` arguments are the last, and returned in this order
                resize(arguments[count_of - shapes.size() + i].toTensor(), tensor.sizes(), std::nullopt);
                continue;
            }
            results.push_back(at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device)));
            operands.push_back(results.back().data_ptr());
        }
    }
    // Tensors of the host are scalars here, and read now; those of the device as they will be then.
    std::vector<std::vector<Layout>> layouts(count_of);
    for (size_t i = 0; i < count_of; i++) {
        arguments[i] = replaced(arguments[i], [&](const Tensor &tensor) {
            if (is_late(tensor)) {
                layouts[i].emplace_back(tensor);
                return at::empty_strided({0}, {1}, c10::TensorOptions(c10::kMeta)); // stands for it
            }
            return tensor.clone();
        });
        arguments[i] = arguments[i].isDevice() ? IValue(Device(c10::kCPU)) : arguments[i];
    }
    std::vector<Layout> places(results.begin(), results.end());
    auto work = [op, arguments, layouts, places]() mutable {
        for (size_t i = 0; i < arguments.size(); i++) {
            size_t next = 0;
            arguments[i] = replaced(arguments[i], [&](const Tensor &tensor) {
                return tensor.is_meta() ? layouts[i][next++].on_host() : tensor;
            });
        }
        op.callBoxed(&arguments);
        for (size_t i = 0; i < places.size(); i++) {
            places[i].on_host().copy_(arguments[i].toTensor());
        }
    };
    Lock lock(world().mutex);
    push(current_queue(device.index()), {schema.name(), work, operands});
    count("kernels");
    torch::jit::Stack returned;
    if (writes) { // what is returned is what was written to
        for (auto &result : schema.returns()) {
            for (size_t i = 0; i < count_of; i++) {
                auto alias = schema.arguments()[i].alias_info();
                if (alias && result.alias_info() && *alias == *result.alias_info()) {
                    returned.push_back((*stack)[first + i]);
                    break;
                }
            }
        }
    }
    else {
        returned.assign(results.begin(), results.end());
    }
    torch::jit::drop(*stack, count_of);
    stack->insert(stack->end(), returned.begin(), returned.end());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("empty.memory_format", &empty);
    m.impl("empty_strided", &empty_strided);
    m.impl("_copy_from", &copy_from);
    m.impl("_copy_from_and_resize", &copy_from_and_resize);
    m.impl("record_stream", &record_stream);
    m.impl("resize_", &resize);
    m.impl("_local_scalar_dense", &local_scalar_dense);
    m.impl("as_strided", &at::native::as_strided_tensorimpl);
    m.impl("view", &at::native::view);
    m.impl("_reshape_alias", &at::native::_reshape_alias);
    m.impl("unfold", &at::native::unfold);
    m.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
    m.impl("set_.source_Storage", &at::native::set_);
    m.impl("set_.source_Tensor", &at::native::set_tensor_);
}

// A copy reads a conjugate or negative view as what it stands for.
TORCH_LIBRARY_IMPL(aten, Conjugate, m)
{
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m)
{
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

} // namespace

// ---- what tests call --------------------------------------------------------------------------------------

extern "C" {

void late_register()
{
    static Hooks hooks;
    c10::SetAllocator(kLate, &device_allocator);
    at::RegisterPrivateUse1HooksInterface(&hooks);
}

int64_t late_run(int device, int stream, int64_t most)
{
    Lock lock(world().mutex);
    int64_t done = 0;
    while (done < most && run_one(queue_of(device, stream), false)) {
        done++;
    }
    return done;
}

int64_t late_pending(int device, int stream)
{
    Lock lock(world().mutex);
    return int64_t(queue_of(device, stream)->tasks.size());
}

int late_streams(int device)
{
    Lock lock(world().mutex);
    return int(world().queues[device].size());
}

int late_new_stream(int device)
{
    Lock lock(world().mutex);
    return new_queue(device)->id;
}

int64_t late_count(const char *what)
{
    Lock lock(world().mutex);
    return world().counters[what];
}

const char *late_faults()
{
    return world().faults.c_str();
}

void late_reset()
{
    Lock lock(world().mutex);
    world().counters.clear();
    world().faults.clear();
    world().allocations_left = -1;
    world().lost = world().capturing = false;
}

void late_limit_allocations(int64_t left)
{
    world().allocations_left = left;
}

void late_set_lost(int lost)
{
    world().lost = lost;
}

void late_set_capturing(int capturing)
{
    world().capturing = capturing;
}

/* Memory and work of another framework on the same device. */
void *late_allocate(int device, int stream, size_t size)
{
    Lock lock(world().mutex);
    return allocate(device, queue_of(device, stream), size);
}

void late_free(void *address)
{
    release(address);
}

void late_write(int device, int stream, void *address, const void *values, size_t size)
{
    Lock lock(world().mutex);
    std::string bytes((const char *)values, size);
    auto work = [address, bytes] { memcpy(bytes_at(address), bytes.data(), bytes.size()); };
    push(queue_of(device, stream), {"write", work, {address}});
}

void late_copy(int device, int stream, void *to, const void *from, size_t size)
{
    Lock lock(world().mutex);
    auto work = [=] { memcpy(bytes_at(to), bytes_at(from), size); };
    push(queue_of(device, stream), {"copy of another framework", work, {to, from}});
}

/* Let a stream wait for all that another one has to do by now. */
void late_order(int device, int stream, int awaited)
{
    Lock lock(world().mutex);
    auto queue = queue_of(device, awaited);
    push(queue_of(device, stream), {"wait", nullptr, {}, queue, queue->pushed});
}

/* What is in memory at this moment, for tests only. */
void late_peek(const void *address, void *values, size_t size)
{
    Lock lock(world().mutex);
    memcpy(values, bytes_at(address), size);
}
}
