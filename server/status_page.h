// `/`: a small live page. It asks /health and /version, which need no key, and holds no secret.
#pragma once

#include <string_view>

namespace yoke::server {

inline constexpr std::string_view kStatusPage = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>yoke</title>
<meta name="viewport" content="width=device-width">
<style>
body{font:16px/1.5 system-ui,sans-serif;margin:3rem auto;max-width:34rem;padding:0 1rem}
b{font-weight:600}code{background:#8882;padding:.1em .3em;border-radius:.2em}
#dot{display:inline-block;width:.7em;height:.7em;border-radius:50%;background:#999}
</style></head><body>
<h1>yoke <small id="version"></small></h1>
<p><span id="dot"></span> <b id="state">asking</b> <span id="load"></span></p>
<p>OpenAI API: <code id="base">/v1</code> &middot; <a href="/v1/models">models</a> &middot;
<a href="/metrics">metrics</a> &middot; <a href="/health">health</a></p>
<script>
const set=(id,text)=>{document.getElementById(id).textContent=text};
set('base',location.origin+'/v1');
fetch('/version').then(r=>r.json()).then(v=>set('version',v.version)).catch(()=>{});
async function look(){
  let ok=false;
  try{
    const r=await fetch('/health');const h=await r.json();ok=r.ok;
    set('state',ok?'ready':h.error.message);
    set('load',ok&&'busy'in h?h.requests_running+' running, '+h.requests_waiting+' waiting':'');
  }catch(e){set('state','not reachable');set('load','')}
  document.getElementById('dot').style.background=ok?'#2a2':'#c33';
}
look();setInterval(look,2000);
</script></body></html>
)";

}  // namespace yoke::server
