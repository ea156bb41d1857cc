/*
 * monitor_names.c (L5): the names of a monitor's events and of why handshakes fail.
 */
#include <evzmq/monitor.h>

#include <zmq.h>

const char *evzmq_monitor_event_name(enum evzmq_monitor_event_type type)
{
    static const char *const names[] = {
        "connected",
        "connect delayed",
        "connect retried",
        "listening",
        "bind failed",
        "accepted",
        "accept failed",
        "closed",
        "close failed",
        "disconnected",
        "monitor stopped",
        "handshake failed, no detail",
        "handshake succeeded",
        "handshake failed, protocol",
        "handshake failed, authentication",
    };
    for (size_t bit = 0; bit < sizeof(names) / sizeof(names[0]); bit++) {
        if ((unsigned)type == 1u << bit) {
            return names[bit];
        }
    }
    return "unknown";
}

const char *evzmq_monitor_reason_name(unsigned reason)
{
    static const struct {
        unsigned reason;
        const char *name;
    } names[] = {
        {ZMQ_PROTOCOL_ERROR_ZMTP_UNSPECIFIED, "ZMTP error"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_UNEXPECTED_COMMAND, "unexpected command"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_INVALID_SEQUENCE, "invalid sequence"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_KEY_EXCHANGE, "key exchange"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_UNSPECIFIED, "malformed command"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_MESSAGE, "malformed MESSAGE"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_HELLO, "malformed HELLO"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_INITIATE, "malformed INITIATE"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_ERROR, "malformed ERROR"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_READY, "malformed READY"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_WELCOME, "malformed WELCOME"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_INVALID_METADATA, "invalid metadata"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC, "cryptographic error"},
        {ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH, "mechanism mismatch"},
        {ZMQ_PROTOCOL_ERROR_ZAP_UNSPECIFIED, "ZAP error"},
        {ZMQ_PROTOCOL_ERROR_ZAP_MALFORMED_REPLY, "malformed ZAP reply"},
        {ZMQ_PROTOCOL_ERROR_ZAP_BAD_REQUEST_ID, "ZAP reply to another request"},
        {ZMQ_PROTOCOL_ERROR_ZAP_BAD_VERSION, "ZAP reply of another version"},
        {ZMQ_PROTOCOL_ERROR_ZAP_INVALID_STATUS_CODE, "invalid ZAP status"},
        {ZMQ_PROTOCOL_ERROR_ZAP_INVALID_METADATA, "invalid ZAP metadata"},
        {ZMQ_PROTOCOL_ERROR_WS_UNSPECIFIED, "WebSocket error"},
        {300, "temporary authentication error"},
        {400, "authentication failed"},
        {500, "internal authentication error"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].reason == reason) {
            return names[i].name;
        }
    }
    return "unknown";
}
