// Uses something of every public header, as C++17.
#include <evzmq/base.h>
#include <evzmq/codec.h>
#include <evzmq/context.h>
#include <evzmq/cursor.h>
#include <evzmq/evzmq.h>
#include <evzmq/message.h>
#include <evzmq/monitor.h>
#include <evzmq/msgpack.h>
#include <evzmq/packing.h>
#include <evzmq/pool.h>
#include <evzmq/poster.h>
#include <evzmq/pubsub.h>
#include <evzmq/records.h>
#include <evzmq/request.h>
#include <evzmq/schema.h>
#include <evzmq/socket.h>
#include <evzmq/stats.h>
#include <evzmq/worker.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include <event2/event.h>
#include <zmq.h>

namespace
{

struct reading {
    evzmq_str sensor;
    double celsius;
};

const evzmq_field fields[] = {
    EVZMQ_FIELD(STR, reading, sensor, EVZMQ_REQUIRED),
    EVZMQ_FIELD(FLOAT64, reading, celsius, 0),
};
const evzmq_schema schema = EVZMQ_SCHEMA(reading, ARRAY, "reading", fields);

std::string got;

void on_reading(evzmq_socket *, evzmq_message *message, void *base)
{
    const auto *value = static_cast<const reading *>(evzmq_record_value(message, nullptr));
    if (value != nullptr) {
        got = std::string_view(value->sensor.data, value->sensor.size);
    }
    event_base_loopbreak(static_cast<event_base *>(base));
}

bool round_trip()
{
    void *context = zmq_ctx_new();
    void *pull = zmq_socket(context, ZMQ_PULL);
    void *push = zmq_socket(context, ZMQ_PUSH);
    if (zmq_bind(pull, "inproc://readings") != 0 || zmq_connect(push, "inproc://readings") != 0) {
        return false;
    }
    event_base *base = event_base_new();
    evzmq_codec *codec = evzmq_schema_codec_new(&schema, nullptr);
    evzmq_socket *in = evzmq_socket_new(base, pull, EVZMQ_OPT_CLOSE_ON_FREE);
    evzmq_socket *out = evzmq_socket_new(base, push, EVZMQ_OPT_CLOSE_ON_FREE);
    evzmq_socket_set_codec(in, codec);
    evzmq_socket_set_codec(out, codec);
    evzmq_socket_set_packing(out, 4096, 1000);
    evzmq_socket_set_unpacking(in, 1);
    evzmq_socket_setcb(in, on_reading, nullptr, nullptr, base);
    evzmq_socket_enable(in, EV_READ);
    reading value{};
    value.sensor.data = "attic";
    value.sensor.size = 5;
    evzmq_socket_write_value(out, &value);
    const timeval deadline{30, 0};
    event_base_loopexit(base, &deadline);
    event_base_dispatch(base);
    evzmq_socket_stats stats{};
    evzmq_socket_get_stats(in, &stats);
    evzmq_socket_free(in);
    evzmq_socket_free(out);
    evzmq_codec_free(codec);
    event_base_free(base);
    zmq_ctx_term(context);
    return got == "attic";
}

} // namespace

int main()
{
    int major = -1;
    evzmq_version(&major, nullptr, nullptr);
    evzmq_codec_free(evzmq_msgpack_codec_new(nullptr));
    evzmq_message_free(evzmq_message_new());
    evzmq_context_free(evzmq_context_new(1, nullptr));
    evzmq_cursor cursor{};
    (void)evzmq_cursor_read_nil(&cursor);
    evzmq_monitor_free(nullptr);
    evzmq_pool_free(nullptr);
    evzmq_poster_free(nullptr);
    evzmq_publisher_free(nullptr);
    evzmq_subscriber_free(nullptr);
    evzmq_requester_free(nullptr);
    evzmq_worker_free(nullptr);
    const bool fine = major == EVZMQ_VERSION_MAJOR && round_trip() &&
                      evzmq_schema_check(&evzmq_record_query_schema, nullptr) == 0 &&
                      std::strlen(evzmq_decode_kind_name(EVZMQ_DECODE_UTF8)) > 0;
    std::puts(fine ? "fine" : "not fine");
    return fine ? 0 : 1;
}
