// SPDX-License-Identifier: Apache-2.0
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;

public class Client {
	interface Call {
		Answer run(String method, String url, byte[] body, boolean chunked) throws Exception;
	}

	static class Answer {
		final int status;
		final byte[] body;

		Answer(int status, byte[] body) {
			this.status = status;
			this.body = body;
		}
	}

	static final HttpClient client = HttpClient.newHttpClient();

	static Answer httpClient(String method, String url, byte[] body, boolean chunked) throws Exception {
		var content = body == null ? BodyPublishers.noBody() : chunked ? BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(body)) : BodyPublishers.ofByteArray(body);
		var r = client.send(HttpRequest.newBuilder(URI.create(url)).method(method, content).build(), BodyHandlers.ofByteArray());
		return new Answer(r.statusCode(), r.body());
	}

	static Answer urlConnection(String method, String url, byte[] body, boolean chunked) throws Exception {
		var c = (HttpURLConnection) new URL(url).openConnection();
		c.setRequestMethod(method);
		if (body != null) {
			c.setDoOutput(true);
			if (chunked)
				c.setChunkedStreamingMode(50000);
			else
				c.setFixedLengthStreamingMode(body.length);
			try (var out = c.getOutputStream()) {
				out.write(body);
			}
		}
		int status = c.getResponseCode();
		try (InputStream in = status >= 400 ? c.getErrorStream() : c.getInputStream()) {
			return new Answer(status, in == null ? new byte[0] : in.readAllBytes());
		}
	}

	static void show(String name, Call call, String word, String method, String url, byte[] body, boolean chunked) {
		try {
			Answer a = call.run(method, url, body, chunked);
			System.out.println(name + " " + word + " " + a.status + " " + new String(a.body).trim());
		} catch (Exception e) {
			System.out.println(name + " " + word + " error " + e);
		}
	}

	static void all(String name, Call call, String base, String mark, byte[] blob) throws Exception {
		show(name, call, "allowed", "GET", base + "/v1/hello?" + mark, null, false);
		show(name, call, "refused", "DELETE", base + "/v1/hello?" + mark, null, false);
		show(name, call, "elsewhere", "GET", "https://elsewhere.test/", null, false);
		var hex = new StringBuilder();
		for (byte b : MessageDigest.getInstance("SHA-256").digest(call.run("GET", base + "/v1/big?" + mark, null, false).body))
			hex.append(String.format("%02x", b));
		System.out.println(name + " down " + hex);
		show(name, call, "up", "PUT", base + "/v1/up?" + mark, blob, false);
		show(name, call, "chunked", "PUT", base + "/v1/up?" + mark, blob, true);
	}

	public static void main(String[] args) throws Exception {
		byte[] blob = Files.readAllBytes(Path.of(args[2]));
		all("httpclient", Client::httpClient, args[0], args[1], blob);
		all("urlconnection", Client::urlConnection, args[0], args[1], blob);
	}
}
