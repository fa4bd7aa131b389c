// The bodies of Asio and Beast, compiled once: every user of yoke_server_asio sees declarations
// only (the *_SEPARATE_COMPILATION definitions come with the target).
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
